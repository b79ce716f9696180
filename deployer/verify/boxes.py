"""Boxes of elements that tiles touch, and arguments that no tile changes, for the judges of tilings and plans.

Nothing here calls the planner.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Operand, Windowed
from deployer.core.kernel import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride, UpdateNumber
from deployer.core.plan import PlanOperand, PlanStep, StepTiling

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
    for outer_tile in itertools.product(*(cuts(access.dim(name).size, outer[name]) for name in order)):
        within = dict(zip(order, outer_tile, strict=True))
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
    """Whether each element is written in one series of tiles on its box: walks all tiles and counts those series."""
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


def step_pieces(step: PlanStep) -> dict[str, list[Span]]:
    """The pieces into which the tiles of a plan's step cut each dim, by the dim's name."""
    return {d.name: cuts_within(d.size, d.outer, d.tile) for d in step.dims}


def lasting(step: PlanStep, value: ArgValue) -> float | None:
    """A kernel argument that is no pointer, if it is the same in all tiles and passes; None if the step sets it."""
    pieces = step_pieces(step)
    sums = [d.name for d in step.dims if d.reduction and len(pieces[d.name]) > 1]
    match value:
        case Const(number):
            return number
        case Extent(dim):
            return _sole(length for _, length in pieces[dim])
        case Start(dim):
            return 0 if len(pieces[dim]) == 1 else None
        case First() | Last():
            return None if sums else 1
        case Length(arg, axis):
            return _lengths(step, arg, pieces)[axis]
        case Stride(arg, axis):
            return _lasting_stride(step, arg, axis, pieces)
        case Offset(arg, axis):
            return _lasting_offset(_operand(step, arg), axis, pieces)
        case Flag() | UpdateNumber():
            return None


def steady_addresses(step: PlanStep) -> int:
    """Operands whose address for the kernel is the same in all tiles: in a sole slot, or resident and never moved."""
    pieces, count = step_pieces(step), 0
    for o in step.operands:
        moves = any(len(pieces[a.dim]) > 1 for a in o.axes if isinstance(a, At | Windowed))
        count += o.slots == 1 or (not o.slots and not moves)
    return count


def _operand(step: PlanStep, arg: str) -> PlanOperand:
    return next(o for o in step.operands if o.arg == arg)


def _sole(values: Iterable[int]) -> int | None:
    """The value that all are, or None."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _lengths(step: PlanStep, arg: str, pieces: Mapping[str, list[Span]]) -> list[int | None]:
    """The length of an operand's boxes on each axis, or None where it varies."""
    o = _operand(step, arg)
    return [_sole(n for _, n in axis_spans(a, e, pieces)) for a, e in zip(o.axes, o.view, strict=True)]


def _lasting_offset(operand: PlanOperand, axis: int, pieces: Mapping[str, list[Span]]) -> int | None:
    """Return the start of a tile's windows along an axis, from the box's first index; None if that varies."""
    mapped = operand.axes[axis]
    if not isinstance(mapped, Windowed):
        return None
    return _sole(mapped.offset({mapped.dim: piece}, operand.view[axis]) for piece in pieces[mapped.dim])


def _lasting_stride(step: PlanStep, arg: str, axis: int, pieces: Mapping[str, list[Span]]) -> int | None:
    """The elements from one index to the next: in the tensor where it is resident, else in the packed box."""
    o = _operand(step, arg)
    if isinstance(o.axes[axis], Broadcast):
        return 0
    known = [n for n in (_lengths(step, arg, pieces) if o.slots else o.view)[axis + 1 :] if n is not None]
    return math.prod(known) if len(known) == len(o.axes) - axis - 1 else None
