"""Boxes of elements that tiles touch, for the judges of tilings and plans; nothing here calls the planner."""

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from deployer.core.access import Access, At, Axis, Operand, Windowed
from deployer.core.plan import StepTiling

Span = tuple[int, int]
MARKED_TILES, MARKED_ELEMENTS = 128, 1 << 20
"""An output of at most so many tiles and elements is checked element by element; a larger one axis by axis."""


def cuts(size: int, tile: int) -> list[Span]:
    """(start, length) of each piece of a dim of `size` elements; the last piece may be shorter than `tile`."""
    return [(start, min(tile, size - start)) for start in range(0, size, tile)]


def cuts_within(size: int, outer: int, tile: int) -> list[Span]:
    """(start, length) of each piece of a dim that is cut into parts of `outer` elements and these into tiles."""
    return [(start + s, n) for start, length in cuts(size, outer) for s, n in cuts(length, tile)]


def all_pieces(access: Access, choice: StepTiling) -> dict[str, list[Span]]:
    """The (start, length) pieces into which the tiles cut each dim, by the dim's name."""
    outer = choice.stage.tile if choice.stage else {}
    return {d.name: cuts_within(d.size, outer.get(d.name, d.size), choice.tile[d.name]) for d in access.dims}


def axis_spans(axis: Axis, extent: int, pieces: Mapping[str, list[Span]]) -> list[Span]:
    """(first index, length) on an axis of `extent` elements for each piece of its dim; one span if it has no dim."""
    if isinstance(axis, At | Windowed):
        return [axis.span({axis.dim: piece}, extent) for piece in pieces[axis.dim]]
    return [axis.span({}, extent)]


def largest_box(operand: Operand, pieces: Mapping[str, list[Span]]) -> int:
    """Number of elements in the largest box that a tile touches of the operand."""
    longest = (max(n for _, n in axis_spans(a, e, pieces)) for a, e in zip(operand.axes, operand.view, strict=True))
    return math.prod(longest)


def strided_levels(operand: Operand, access: Access, lengths: Mapping[str, int]) -> int:
    """Number of strides that a transfer of the operand's largest box needs besides its contiguous run.

    An axis that the box spans fully continues the run of the axis inside of it, and needs no stride.
    """
    pieces = {d.name: cuts(d.size, lengths[d.name]) for d in access.dims}
    longest = [max(n for _, n in axis_spans(a, e, pieces)) for a, e in zip(operand.axes, operand.view, strict=True)]
    axes = [(n, e) for n, e in zip(longest, operand.view, strict=True) if e > 1]
    while axes and axes[-1][0] == axes[-1][1]:
        axes.pop()
    if not axes:
        return 0
    axes.pop()
    levels, full = 0, False
    for length, extent in reversed(axes):
        if length > 1:
            levels += not full
            full = length == extent
        else:
            full = False
    return levels


def _walk(access: Access, choice: StepTiling) -> Iterator[dict[str, Span]]:
    """Each tile's (start, length) by dim, in loop order; the tiles of one stage part follow each other."""
    outer, order = choice.outer(access), choice.stage.order if choice.stage else choice.order
    for part in itertools.product(*(cuts(access.dim(name).size, outer[name]) for name in order)):
        within = dict(zip(order, part, strict=True))
        pieces = []
        for name in choice.order:
            first, length = within[name]
            pieces.append([(first + s, n) for s, n in cuts(length, choice.tile[name])])
        for tile in itertools.product(*pieces):
            yield dict(zip(choice.order, tile, strict=True))


def written_once(operand: Operand, access: Access, choice: StepTiling) -> bool:
    """Whether the tiles write each output element once; tiles on the same box may differ in reduction dims only."""
    count = math.prod(len(pieces) for pieces in all_pieces(access, choice).values())
    small = count <= MARKED_TILES and math.prod(operand.view) <= MARKED_ELEMENTS
    product = len(set(operand.dims)) == len(operand.dims)
    return marked_once(operand, access, choice) if small or not product else axes_once(operand, access, choice)


def marked_once(operand: Operand, access: Access, choice: StepTiling) -> bool:
    """Whether each element is written in one visit of its box: walks all tiles and counts the visits."""
    marks = np.zeros(operand.view, np.uint32)
    parallel = [d.name for d in access.dims if d.kind == "parallel"]
    previous: tuple[tuple[Span, ...], list[Span]] | None = None
    for tile in _walk(access, choice):
        box, position = operand.box(tile), [tile[name] for name in parallel]
        if previous is not None and previous[0] == box:
            if previous[1] != position:
                return False
        else:
            marks[tuple(slice(low, low + n) for low, n in box)] += 1
        previous = (box, position)
    return bool((marks == 1).all())


def axes_once(operand: Operand, access: Access, choice: StepTiling) -> bool:
    """Whether the boxes cover each axis once, for operands that have each dim on at most one axis.

    Every split parallel dim must be on an axis. No split reduction dim on an axis may lie inside of one on no axis:
    the tiles would come back to a box that they have left.
    """
    pieces = all_pieces(access, choice)
    split = [d for d in access.dims if len(pieces[d.name]) > 1]
    moves = [d.name in operand.dims for d in split if d.kind == "reduction"]
    if moves != sorted(moves, reverse=True):
        return False
    for axis, extent in zip(operand.axes, operand.view, strict=True):
        end = 0
        for low, length in sorted(axis_spans(axis, extent, pieces)):
            if low != end or length < 1:
                return False
            end = low + length
        if end != extent:
            return False
    return all(d.name in operand.dims for d in split if d.kind == "parallel")
