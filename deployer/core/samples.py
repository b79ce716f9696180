"""Samples of operators: uses for tests and for measuring kernels, kept beside the operators' own files.

They lie in a module `samples` of the operator's package, which is imported when they are first asked for. A function
there is registered for a class of operators by `samples_of`, or by `sweep_of`, and serves its subclasses as well.
"""

import importlib
import importlib.util
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

import deployer.targets
from deployer.core.files.reading import own_toml
from deployer.core.ir import AttrValue
from deployer.core.packages import SAMPLES

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Sample:
    """One concrete use for tests: inputs (None = absent), attributes, number of outputs.

    `onnx` says that ONNX Runtime knows this form under its own name, so that it can be the reference.
    """

    label: str
    inputs: tuple[npt.NDArray[Any] | None, ...]
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    outputs: int = 1
    onnx: bool = True


Uses = Callable[[Any], Iterator[Sample]]
_SAMPLES: dict[object, Uses] = {}
_SWEEPS: dict[object, Uses] = {}


def samples_of(
    kind: Callable[..., Kind],
) -> Callable[[Callable[[Kind], Iterator[Sample]]], Callable[[Kind], Iterator[Sample]]]:
    """Register the function that yields the samples of a class of operators, from a fixed seed."""

    def known(function: Callable[[Kind], Iterator[Sample]]) -> Callable[[Kind], Iterator[Sample]]:
        _SAMPLES[kind] = function
        return function

    return known


def sweep_of(
    kind: Callable[..., Kind],
) -> Callable[[Callable[[Kind], Iterator[Sample]]], Callable[[Kind], Iterator[Sample]]]:
    """Register the function that yields the uses on which the kernel of a class of operators is measured."""

    def known(function: Callable[[Kind], Iterator[Sample]]) -> Callable[[Kind], Iterator[Sample]]:
        _SWEEPS[kind] = function
        return function

    return known


def registered_samples(operator: object, behind: object = None) -> Iterator[Sample] | None:
    """The samples that are registered for the operator's class, or for the first of its bases behind one; or None."""
    return _first(_SAMPLES, operator, behind)


def registered_sweep(operator: object, behind: object = None) -> Iterator[Sample] | None:
    """The uses to measure that are registered for the operator's class, or for a base behind one; or None."""
    return _first(_SWEEPS, operator, behind)


def inherited_samples(operator: object, kind: object) -> Iterator[Sample]:
    """The samples that the operator would have without those that are registered for `kind`."""
    found = registered_samples(operator, kind)
    assert found is not None, f"no base of {kind} has samples"
    return found


def inherited_sweep(operator: Any, kind: object) -> Iterator[Sample]:
    """The uses to measure that the operator would have without those that are registered for `kind`."""
    found = registered_sweep(operator, kind)
    uses: Iterator[Sample] = operator.usual_sweep() if found is None else found
    return uses


def _first(table: dict[object, Uses], operator: object, behind: object) -> Iterator[Sample] | None:
    kinds = type(operator).__mro__
    for kind in kinds:
        _load(kind.__module__)
    begin = kinds.index(behind) + 1 if isinstance(behind, type) else 0
    return next((table[kind](operator) for kind in kinds[begin:] if kind in table), None)


@cache
def _load(module: str) -> None:
    """Import the module of samples beside a module, where there is one."""
    package = module.rpartition(".")[0]
    name = f"{package}.{SAMPLES}"
    if package and importlib.util.find_spec(name) is not None:
        importlib.import_module(name)


# Shapes on which kernels are measured: `targets/common/measured.toml`.

FOLDER = Path(deployer.targets.__file__).parent / "common"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class ConvolutionLayer:
    """A layer of convolution: shapes of X and W, and attributes."""

    label: str
    x: Shape
    w: Shape
    attrs: dict[str, AttrValue]


@cache
def _table(name: str) -> dict[str, Any]:
    return own_toml(FOLDER / name)


def measured(name: str) -> list[Shape]:
    """A list of shapes, or of lengths as shapes of one, on which kernels are measured."""
    return [tuple(entry) if isinstance(entry, list) else (entry,) for entry in _table("measured.toml")[name]]


def measured_layers() -> list[ConvolutionLayer]:
    """The layers of convolution on which kernels are measured."""
    layers = []
    for entry in _table("measured.toml")["layers"]:
        attrs = {name: tuple(v) if isinstance(v, list) else v for name, v in entry["attrs"].items()}
        layers.append(ConvolutionLayer(entry["label"], tuple(entry["x"]), tuple(entry["w"]), attrs))
    for c, height, width, m in measured("parts"):
        label, attrs = f"3x3 {c}-{m} of {height}x{width}", {"pads": (1,) * 4}
        layers.append(ConvolutionLayer(label, (1, c, height, width), (m, c, 3, 3), attrs))
    for number, table in enumerate(_table("measured.toml")["drawn"], 1):
        layers += _drawn_layers(f"drawn {number}.", **table)
    return layers


def _drawn_layers(
    label: str,
    seed: int,
    layers: int,
    channels: list[int],
    sides: list[int],
    kernels: list[list[int]],
    most: int,
    depthwise: float,
) -> Iterator[ConvolutionLayer]:
    """So many layers drawn by seed, each of less than `most` multiply-accumulates; `depthwise` is the share of such."""
    draw, found = random.Random(seed), 0
    while found < layers:
        kernel, (height, width) = draw.choice(kernels), (draw.choice(sides), draw.choice(sides))
        stride, (c, m) = draw.choice((1, 1, 2)), (draw.choice(channels), draw.choice(channels))
        deep = kernel != [1, 1] and draw.random() < depthwise
        group, m = (c, c) if deep else (1, m)
        places = -(-height // stride) * -(-width // stride)
        if min(height, width) < stride or places * m * (c // group) * kernel[0] * kernel[1] > most:
            continue
        found += 1
        pads = tuple((side - 1) // 2 for side in kernel)
        attrs: dict[str, AttrValue] = {"group": group, "strides": (stride, stride)}
        attrs |= {"pads": pads * 2} if any(pads) else {}
        yield ConvolutionLayer(f"{label}{found}", (1, c, height, width), (m, c // group, *kernel), attrs)
