"""Judge of kernel variants: the one that a step calls is valid for each of its calls.

Rule: variant. The arguments of calls are computed from the plan alone.
"""

import itertools
import math
from collections.abc import Iterator, Mapping

from deployer.core.access import At, Broadcast, Windowed
from deployer.core.errors import InternalError
from deployer.core.operator import ArgValue, Const, Extent, First, Last, Length, Offset, Stride
from deployer.core.plan import PlanOperand, PlanStep
from deployer.core.target import Target
from deployer.kernel_variants.conditions import variants_of
from deployer.verify.boxes import Span, step_pieces
from deployer.verify.tiling import need

RULE = "variant"


def check_variant(step: PlanStep, target: Target) -> None:
    """The target has the function that a step calls, and each of its calls meets what that needs."""
    if not step.variant:
        return
    place = f"step {step.index} {step.name!r} ({step.op})"
    found = next((x for x in variants_of(step.kernel.symbol, target) if x.name == step.variant), None)
    if found is None:
        cause = f"{place}: kernel {step.kernel.symbol} has no variant {step.variant!r} on this target"
        need(False, RULE, cause)
        return
    for tile in _unlike(step):
        values = {name: _argument(step, value, tile) for name, value in step.args.items() if name in found.names}
        pointers = {name: any(o.arg == name for o in step.operands) for name, _, _ in step.kernel.pointers}
        broken = found.broken({**values, **pointers}, target.cores)
        facts = ("tile", ", ".join(f"{dim} {first}..{first + n}" for dim, (first, n) in tile.items()))
        cause = f"{place}: {step.variant!r} is not valid for a call, which needs {broken}"
        need(not broken, RULE, cause, facts)


def _unlike(step: PlanStep) -> Iterator[dict[str, Span]]:
    """A tile of each kind: those whose pieces have the same lengths, ends and windows make equal calls."""
    pieces = step_pieces(step)
    kinds = [
        {_kind(step, name, piece, pieces[name]): piece for piece in reversed(pieces[name])}.values() for name in pieces
    ]
    for spans in itertools.product(*kinds):
        yield dict(zip(pieces, spans, strict=True))


def _kind(step: PlanStep, dim: str, piece: Span, among: list[Span]) -> tuple[object, ...]:
    axes = [(a, e) for o in step.operands for a, e in zip(o.axes, o.view, strict=True) if isinstance(a, Windowed)]
    windows = [(a.span({dim: piece}, e)[1], a.offset({dim: piece}, e)) for a, e in axes if a.dim == dim]
    return piece[1], piece == among[0], piece == among[-1], *windows


def _argument(step: PlanStep, value: ArgValue, tile: Mapping[str, Span]) -> float:
    """A scalar of the call for a tile."""
    sums = [d for d in step.dims if d.reduction]
    match value:
        case Const(number):
            return number
        case Extent(dim):
            return tile[dim][1]
        case First():
            return all(tile[d.name][0] == 0 for d in sums)
        case Last():
            return all(sum(tile[d.name]) == d.size for d in sums)
        case Length(arg, axis):
            return _box(_operand(step, arg), tile)[axis]
        case Stride(arg, axis):
            operand = _operand(step, arg)
            lengths = _box(operand, tile) if operand.slots else operand.view
            return 0 if isinstance(operand.axes[axis], Broadcast) else math.prod(lengths[axis + 1 :])
        case Offset(arg, axis):
            operand = _operand(step, arg)
            mapped = operand.axes[axis]
            if isinstance(mapped, Windowed):
                return mapped.offset({mapped.dim: tile[mapped.dim]}, operand.view[axis])
    raise InternalError(f"a condition asks for {value}, which differs between calls of a kind")


def _operand(step: PlanStep, arg: str) -> PlanOperand:
    return next(o for o in step.operands if o.arg == arg)


def _box(operand: PlanOperand, tile: Mapping[str, Span]) -> list[int]:
    """The lengths of what a tile touches of an operand."""
    spans = {dim: tile[dim] for dim in {a.dim for a in operand.axes if isinstance(a, At | Windowed)}}
    return [axis.span(spans, extent)[1] for axis, extent in zip(operand.axes, operand.view, strict=True)]
