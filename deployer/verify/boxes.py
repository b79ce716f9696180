"""Boxes for the judges of tilings and plans: how dims are cut, and what the pieces touch; each derived here anew."""

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from deployer.core.access import Access, At, Axis, Operand, Windowed
from deployer.core.plan import StepTiling

Span = tuple[int, int]
MARKED_TILES, MARKED_ELEMENTS = 128, 1 << 20
"""Up to so many tiles and elements an output is marked tile by tile; beyond that, axis by axis."""


def cuts(size: int, tile: int) -> list[Span]:
    """(start, length) of each piece of a dim."""
    return [(start, min(tile, size - start)) for start in range(0, size, tile)]


def cuts_within(size: int, outer: int, tile: int) -> list[Span]:
    """(start, length) of each piece of a dim whose parts are cut anew."""
    return [(start + s, n) for start, length in cuts(size, outer) for s, n in cuts(length, tile)]


def all_pieces(access: Access, choice: StepTiling) -> dict[str, list[Span]]:
    """The tiles' pieces of every dim."""
    outer = choice.stage.tile if choice.stage else {}
    return {d.name: cuts_within(d.size, outer.get(d.name, d.size), choice.tile[d.name]) for d in access.dims}


def axis_spans(axis: Axis, extent: int, pieces: Mapping[str, list[Span]]) -> list[Span]:
    """(first index, length) on an axis per piece of the dim it depends on; one span where there is none."""
    if isinstance(axis, At | Windowed):
        return [axis.span({axis.dim: piece}, extent) for piece in pieces[axis.dim]]
    return [axis.span({}, extent)]


def largest_box(operand: Operand, pieces: Mapping[str, list[Span]]) -> int:
    """Most elements a tile touches of the operand."""
    longest = (max(n for _, n in axis_spans(a, e, pieces)) for a, e in zip(operand.axes, operand.view, strict=True))
    return math.prod(longest)


def strided_levels(operand: Operand, access: Access, lengths: Mapping[str, int]) -> int:
    """Strides needed to walk the runs of the operand's largest box: where a whole axis ends a run goes on."""
    pieces = {d.name: cuts(d.size, lengths[d.name]) for d in access.dims}
    longest = [max(n for _, n in axis_spans(a, e, pieces)) for a, e in zip(operand.axes, operand.view, strict=True)]
    axes = [(n, e) for n, e in zip(longest, operand.view, strict=True) if e > 1]
    while axes and axes[-1][0] == axes[-1][1]:
        axes.pop()
    if not axes:
        return 0
    axes.pop()
    levels, whole = 0, False
    for length, extent in reversed(axes):
        if length > 1:
            levels += not whole
            whole = length == extent
        else:
            whole = False
    return levels


def _walk(access: Access, choice: StepTiling) -> Iterator[dict[str, Span]]:
    """All tiles in loop order: the stage's, each cut anew."""
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
    """Whether all tiles write each element once, and tiles on one box differ in reductions only."""
    count = math.prod(len(pieces) for pieces in all_pieces(access, choice).values())
    small = count <= MARKED_TILES and math.prod(operand.view) <= MARKED_ELEMENTS
    product = len(set(operand.dims)) == len(operand.dims)
    return marked_once(operand, access, choice) if small or not product else axes_once(operand, access, choice)


def marked_once(operand: Operand, access: Access, choice: StepTiling) -> bool:
    """Whether each element is written in one stay on its box: every tile is walked and its box marked."""
    marks = np.zeros(operand.view, np.uint32)
    parallel = [d.name for d in access.dims if d.kind == "parallel"]
    before: tuple[tuple[Span, ...], list[Span]] | None = None
    for tile in _walk(access, choice):
        box, at = operand.box(tile), [tile[name] for name in parallel]
        if before is not None and before[0] == box:
            if before[1] != at:
                return False
        else:
            marks[tuple(slice(low, low + n) for low, n in box)] += 1
        before = (box, at)
    return bool((marks == 1).all())


def axes_once(operand: Operand, access: Access, choice: StepTiling) -> bool:
    """The same by axes, for boxes that are products: axes are covered once, split parallel dims are on one.

    A split reduction that is on no axis leaves the box where it is, unless one inside of it moves the box.
    """
    pieces = all_pieces(access, choice)
    split = [d for d in access.dims if len(pieces[d.name]) > 1]
    moves = [d.name in operand.dims for d in split if d.kind == "reduction"]
    if moves != sorted(moves, reverse=True):
        return False
    for axis, extent in zip(operand.axes, operand.view, strict=True):
        reached = 0
        for low, length in sorted(axis_spans(axis, extent, pieces)):
            if low != reached or length < 1:
                return False
            reached = low + length
        if reached != extent:
            return False
    return all(d.name in operand.dims for d in split if d.kind == "parallel")
