"""Axes: the longest box of a windowed one is the longest, as slots have that size; mirrored ones begin at the end."""

import itertools

import numpy as np
import pytest

from deployer.core.access import Around, Mirror, Reach, Window, Windowed
from deployer.core.operator import Sample, registry
from deployer.operators.convolution.geometry import regions
from DeployTest.support.kernels.kernel_bench import step_of

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MIDDLE, ENDLESS = 60, 10**6
"""Tiles from the middle on touch no end of an axis; starts beyond MIDDLE + 12 repeat, strides are 1 to 4."""


def window(axis: Windowed, index: int) -> set[int]:
    """The indices of one window, by the definition."""
    return {index * axis.stride + k * axis.dilation - axis.pad for k in range(axis.kernel)}


def touched(axis: Windowed, start: int, length: int) -> set[int]:
    """What a tile touches of the axis, by the definition."""
    tile = set(range(start, start + length))
    if isinstance(axis, Window):
        return {x for i in tile for x in window(axis, i)}
    holding = {i for i in range(2 * MIDDLE) if window(axis, i) & tile}
    return holding if isinstance(axis, Reach) else {x for i in holding for x in window(axis, i)}


@pytest.mark.parametrize("kind", [Window, Reach, Around])
def test_longest(kind: type[Windowed]) -> None:
    """It is reached by some tile's span, and holds what any tile touches: all of it where windows have no gaps."""
    for kernel, stride, dilation, pad, length in itertools.product(
        (1, 2, 3), (1, 2, 3, 4), (1, 2), (0, 1, 2), (1, 2, 5)
    ):
        axis = kind("i", kernel, stride, dilation, pad, **({"count": ENDLESS} if kind is Around else {}))
        starts = range(MIDDLE, MIDDLE + 12)
        longest = axis.longest(length)
        assert longest == max(axis.span({"i": (start, length)}, ENDLESS)[1] for start in starts), axis
        boxes = [touched(axis, start, length) for start in starts]
        most = max(max(box) - min(box) + 1 for box in boxes if box)
        assert longest == most if dilation == 1 else longest >= most, axis


@pytest.mark.parametrize(("size", "tile"), list(itertools.product((1, 2, 5, 12), (1, 2, 3, 5))))
def test_mirrored_tiles_come_from_the_end(size: int, tile: int) -> None:
    """Tiles that run upwards touch the axis from its end on, each index as far from there as from the dim's start."""
    axis, position = Mirror("d"), np.arange(size)[::-1]
    for start in range(0, size, tile):
        low, length = axis.span({"d": (start, min(tile, size - start))}, size)
        assert position[low : low + length][::-1].tolist() == list(range(start, min(start + tile, size)))


def kinds(axis: Window, extent: int, first: int, count: int) -> int:
    """How many kinds of windows a tile has: those that leave the axis before it, behind it, on both sides, nowhere."""
    spans = [(min(window(axis, i)), max(window(axis, i))) for i in range(first, first + count)]
    return len({(low < 0, high >= extent) for low, high in spans})


@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 1, 1), (1, 0, 0, 0), (2, 1, 0, 2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_regions(pads: tuple[int, int, int, int], stride: int) -> None:
    """A plane has a region per kind of window on each axis; a part of it is taken to lie at the end that has more."""
    x, w = np.zeros((1, 1, 24, 26), np.float32), np.zeros((1, 1, 3, 3), np.float32)
    sample = Sample("", (x, w), {"pads": pads, "strides": (stride, stride)})
    access = step_of(registry()["Conv"], sample).access
    assert access is not None
    axes = {
        axis.dim: (axis, size)
        for axis, size in zip(access.operand("x").axes, access.operand("x").view, strict=True)
        if isinstance(axis, Window)
    }
    sizes = access.sizes
    for cut in itertools.chain.from_iterable(itertools.combinations(axes, n) for n in range(3)):
        tile = {name: size // 2 if name in cut else size for name, size in sizes.items()}
        expected = 1
        for dim, (axis, extent) in axes.items():
            starts = (0, sizes[dim] - tile[dim])
            expected *= max(kinds(axis, extent, start, tile[dim]) for start in starts)
        assert regions(access, tile) == expected, cut
