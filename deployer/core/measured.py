"""Shapes on which kernels are measured: `targets/common/measured.toml`."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import deployer.targets
from deployer.core.files.reading import own_toml
from deployer.core.ir import AttrValue

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
