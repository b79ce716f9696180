"""Data of the common kernels, for the cost of operators: how they work, and the shapes on which they are measured."""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import deployer.targets
from deployer.core.artefact import from_jsonable
from deployer.core.ir import AttrValue

FOLDER = Path(deployer.targets.__file__).parent / "common"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class KernelFacts:
    """The numbers of `work.toml`, which explains each of them."""

    block: int
    few: int
    longest_row: int
    transcendental: int
    random: int
    unfinished: int
    region_setup: int
    line_setup: int
    weight_setup: int
    strip_setup: int
    many_planes: int
    rest_macs: int
    rest_factor: float
    rest_taps: float
    several_taps: int
    no_square: float
    rest_square: float


@dataclass(frozen=True)
class Layer:
    """A layer of convolution: shapes of X and W, and attributes."""

    label: str
    x: Shape
    w: Shape
    attrs: dict[str, AttrValue]


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text())


def _facts() -> KernelFacts:
    kinds, table = get_type_hints(KernelFacts), _table("work.toml")
    return KernelFacts(**{f.name: from_jsonable(kinds[f.name], table[f.name]) for f in fields(KernelFacts)})


FACTS = _facts()


def measured(name: str) -> list[Shape]:
    """A list of shapes, or of lengths as shapes of one, on which kernels are measured."""
    return [tuple(entry) if isinstance(entry, list) else (entry,) for entry in _table("measured.toml")[name]]


def measured_layers() -> list[Layer]:
    """The layers of convolution on which kernels are measured."""
    layers = []
    for entry in _table("measured.toml")["layers"]:
        attrs = {name: tuple(v) if isinstance(v, list) else v for name, v in entry["attrs"].items()}
        layers.append(Layer(entry["label"], tuple(entry["x"]), tuple(entry["w"]), attrs))
    return layers
