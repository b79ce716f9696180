"""The longest box of a windowed axis is the longest, no less and no more: slots have that size."""

import itertools

import pytest

from deployer.access import Around, Reach, Window, Windowed

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
        found = axis.longest(length)
        assert found == max(axis.span({"i": (start, length)}, ENDLESS)[1] for start in starts), axis
        boxes = [touched(axis, start, length) for start in starts]
        most = max(max(box) - min(box) + 1 for box in boxes if box)
        assert found == most if dilation == 1 else found >= most, axis
