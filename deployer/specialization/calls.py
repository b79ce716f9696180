"""The arguments of a step's calls, tile by tile, and the function of its kernel that all of them may take."""

import itertools
from collections.abc import Iterator, Mapping

from deployer.core.access import Access, Broadcast, Span, Tile, Windowed, strides
from deployer.core.declarations import UpdateNumber
from deployer.core.errors import InternalError
from deployer.core.operator import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride
from deployer.core.plan import PlanDim, PlanStep, Step
from deployer.core.target import Target
from deployer.specialization.conditions import Specialization, Values, chosen, specializations_of


def value_of(
    value: ArgValue, access: Access, tile: Tile, flag: int, buffers: Mapping[str, tuple[int, ...]] | None = None
) -> int | float:
    """The argument's value for a tile, as generated code computes it; `flag` is that of accumulation.

    `buffers` gives the shape of operands' memory where it is not the packed box.
    """
    match value:
        case Const(number):
            return number
        case Extent(dim):
            return tile[dim][1]
        case Start(dim):
            return tile[dim][0]
        case First():
            return int(all(tile[d.name][0] == 0 for d in access.dims if d.kind == "reduction"))
        case Last():
            return int(all(sum(tile[d.name]) == d.size for d in access.dims if d.kind == "reduction"))
        case Flag():
            return flag
        case Stride(arg, axis):
            operand = access.operand(arg)
            shape = tuple(length for _, length in operand.box(tile))
            shape = (buffers or {}).get(arg, shape)
            return 0 if isinstance(operand.axes[axis], Broadcast) else strides(shape)[axis]
        case Length(arg, axis):
            return access.operand(arg).box(tile)[axis][1]
        case Offset(arg, axis):
            operand = access.operand(arg)
            mapped = operand.axes[axis]
            if isinstance(mapped, Windowed):
                return mapped.offset(tile, operand.view[axis])
    raise InternalError(f"{value} has no value")


def specialization_for(step: Step, draft: PlanStep, target: Target) -> str:
    """The name of the function for some calls of the step's kernel that its calls may take; empty if there is none."""
    among = specializations_of(step.kernel.symbol, target)
    return chosen(among, lambda: _calls(step, draft, among), target.cores) if among else ""


def _calls(step: Step, draft: PlanStep, among: tuple[Specialization, ...]) -> Iterator[Values]:
    """The arguments of one call for each kind of tiles, those of the first tile first."""
    asked = frozenset[str]().union(*(specialization.names for specialization in among))
    buffers = {o.arg: o.view for o in draft.operands if not o.slots}
    present = {name: float(any(o.arg == name for o in draft.operands)) for name, _, _ in step.kernel.pointers}
    scalars = {name: value for name, value in step.args.items() if name in asked and _stays(value)}
    kinds = {d.name: _kinds(d, step.access) for d in draft.dims}
    for spans in itertools.product(*kinds.values()):
        tile = dict(zip(kinds, spans, strict=True))
        yield present | {name: value_of(v, step.access, tile, 0, buffers) for name, v in scalars.items()}


def _stays(value: ArgValue) -> bool:
    """Whether an argument is the same in all passes, and for all tiles of a kind: a tile's place is not."""
    return not isinstance(value, Flag | UpdateNumber | Start)


def _kinds(dim: PlanDim, access: Access) -> list[Span]:
    """A piece of each kind along a dim: of each length, at its ends or inside, and with each form of its windows."""
    found: dict[tuple[object, ...], Span] = {}
    for start, length in dim.pieces:
        windows = _windows(access, {dim.name: (start, length)})
        found.setdefault((length, start == 0, start + length == dim.size, *windows), (start, length))
    return list(found.values())


def _windows(access: Access, piece: Mapping[str, Span]) -> Iterator[tuple[int, int]]:
    """The length of each box along the axes that windows over a dim have, and where in it these begin."""
    for operand in access.operands:
        for axis, extent in zip(operand.axes, operand.view, strict=True):
            if isinstance(axis, Windowed) and axis.dim in piece:
                yield axis.span(piece, extent)[1], axis.offset(piece, extent)
