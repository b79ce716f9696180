"""Axes: the longest box of a windowed one is the longest, as slots have that size; mirrored ones begin at the end."""

import itertools

import numpy as np
import pytest

from deployer.core.access import Around, Mirror, Reach, Window, Windowed
from deployer.core.operator import registry
from deployer.core.samples import Sample
from deployer.kernel_models.window_splits import met_taps
from deployer.testing.bench import step_of

pytestmark = [pytest.mark.host, pytest.mark.kernels]
MIDDLE, ENDLESS = 60, 10**6
"""Tiles from the middle on touch no end of an axis; starts beyond MIDDLE + 12 repeat, strides are 1 to 4."""


def window(axis: Windowed, index: int) -> set[int]:
    """The indices of one window, by the definition."""
    return {index * axis.stride + k * axis.dilation - axis.pad for k in range(axis.kernel)}


def touched(axis: Windowed, start: int, length: int) -> set[int]:
    """Return the elements of the axis that a tile touches, by the definition."""
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


@pytest.mark.parametrize("name", ["Conv", "ConvGradX"])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_taps_of_a_tile(name: str, pad: int, stride: int) -> None:
    """Those of its windows that lie inside; of three whole tiles or more along an axis, of one between others."""
    x, w = np.zeros((1, 8, 24, 24), np.float32), np.zeros((8, 8, 5, 5), np.float32)
    attrs = {"pads": (pad,) * 4, "strides": (stride, stride)}
    places = (24 + 2 * pad - 5) // stride + 1
    first, operand = (x, "x") if name == "Conv" else (np.zeros((1, 8, places, places), np.float32), "dy")
    more = {} if name == "Conv" else {"input_shape": (24, 24)}
    access = step_of(registry()[name], Sample("", (first, w), attrs | more)).access
    assert access is not None
    rows = next(axis for axis in access.operand(operand).axes if isinstance(axis, Window | Reach))
    whole = access.dim(rows.dim).size
    if name == "Conv":
        taps = [len(window(rows, i) & set(range(24))) for i in range(whole)]
    else:
        taps = [sum(i in window(rows, place) for place in range(places)) for i in range(whole)]
    for length in range(1, whole + 1):
        met, _ = met_taps(access, operand, access.sizes | {rows.dim: length})
        places_of_tiles = [taps[begin : begin + length] for begin in range(0, whole - length + 1)]
        assert list(met.taps) in places_of_tiles
        if whole >= 3 * length:
            assert sum(met.taps) == max(map(sum, places_of_tiles)), "no tile is cheaper for the border of another"
        else:
            assert list(met.taps) == taps[:length]
