"""Arguments of a step's calls, tile by tile, and the kernel variant that all of them may take."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Span, Tile, Windowed, nested, strides
from deployer.core.errors import InternalError
from deployer.core.kernel import (
    ArgValue,
    Const,
    Extent,
    First,
    Flag,
    Kernel,
    Last,
    Length,
    Offset,
    Start,
    Stride,
    UpdateNumber,
)
from deployer.core.plan import PlanStep, Step
from deployer.core.target import Target
from deployer.kernel_variants.conditions import (
    Condition,
    KernelVariant,
    chosen,
    costed_of,
    variants_of,
)

Lengths = Mapping[str, int]
"""The lengths of a tile along each dim."""


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


def variant_for(step: Step, draft: PlanStep, target: Target) -> str:
    """The name of the function for some calls of the step's kernel that its calls may take; empty if there is none."""
    found = _of_draft(step, draft, variants_of(step.kernel.symbol, target), target.cores)
    return found.name if found else ""


def costed_for(step: Step, draft: PlanStep, target: Target) -> KernelVariant | None:
    """The function whose costs those of the step are; None for the function for all calls."""
    return _of_draft(step, draft, costed_of(step.kernel.symbol, target), target.cores)


def _of_draft(step: Step, draft: PlanStep, among: tuple[KernelVariant, ...], cores: int) -> KernelVariant | None:
    if not among:
        return None
    calls = Calls(step.kernel, step.access, step.args, among, {o.arg: o.view for o in draft.operands if not o.slots})
    pieces = {d.name: d.pieces for d in draft.dims}
    kinds = [calls.kinds_of(dim, pieces[dim.name]) for dim in step.access.dims]
    return chosen(among, partial(calls.met, kinds, cores))


class CostedTiles:
    """Kernel variant whose costs a tile has, before it is known which operands move.

    They have the strides of operands where these live. `args` are the arguments of the kernel's calls.
    """

    def __init__(self, kernel: Kernel, access: Access, args: Mapping[str, ArgValue], target: Target) -> None:
        self.among, self.access, self.cores = costed_of(kernel.symbol, target), access, target.cores
        self.calls = Calls(kernel, access, args, self.among, {o.arg: o.view for o in access.operands})
        self._kinds: dict[tuple[str, int], list[Span]] = {}
        self._decided = [(v, [(c, each, *self._asked(c)) for c, each in v.conditions]) for v in self.among]

    def _asked(self, condition: Condition) -> tuple[Callable[[Lengths], Any], dict[Any, bool]]:
        """A getter of the lengths of a tile that decide a condition, and a cache of what it is for them."""
        names = [self.access.dims[i].name for i in self.calls.deciding(condition.names)]
        return itemgetter(*names) if names else lambda _: (), {}

    def of(self, lengths: Lengths) -> KernelVariant | None:
        """The function for tiles of these lengths; None for the function for all calls.

        A condition depends on few of them, so it is evaluated once for many tiles.
        """
        for variant, conditions in self._decided:
            for condition, each, deciding, known in conditions:
                key = deciding(lengths)
                holds = known.get(key)
                if holds is None:
                    holds = known[key] = self._holds(variant, condition, each, lengths)
                if not holds:
                    break
            else:
                return variant
        return None

    def _holds(self, variant: KernelVariant, condition: Condition, each: bool, lengths: Lengths) -> bool:
        kinds = [self._kinds_at(d, lengths[d.name]) for d in self.access.dims]
        return variant.meets(partial(self.calls.met, kinds, self.cores), condition, each)

    def _kinds_at(self, dim: Dim, length: int) -> list[Span]:
        """A piece of each kind along a dim that is cut into tiles of one length."""
        key = dim.name, length
        if key not in self._kinds:
            ((_, pieces),) = nested(dim.size, dim.size, length)
            self._kinds[key] = self.calls.kinds_of(dim, pieces)
        return self._kinds[key]


class Calls:
    """The arguments of a kernel's calls that conditions of `among` ask for.

    `buffers` gives the shape of operands' memory where it is not the packed box.
    """

    def __init__(
        self,
        kernel: Kernel,
        access: Access,
        args: Mapping[str, ArgValue],
        among: Iterable[KernelVariant],
        buffers: Mapping[str, tuple[int, ...]],
    ) -> None:
        asked = frozenset[str]().union(*(variant.names for variant in among))
        present = {operand.arg for operand in access.operands}
        self.access, self.buffers = access, buffers
        self.names = tuple(d.name for d in access.dims)
        self.pointers = {name: float(name in present) for name, _, _ in kernel.pointers}
        scalars = {name: (value, self._dims(value)) for name, value in args.items() if name in asked and _stays(value)}
        self.scalars = {
            name: (value, [i for i, dim in enumerate(self.names) if dim in dims])
            for name, (value, dims) in scalars.items()
        }
        self._values: dict[str, dict[tuple[Span, ...], float]] = {name: {} for name in self.scalars}
        self._met: dict[tuple[Condition, int], tuple[list[int], dict[tuple[Span, ...], bool]]] = {}

    def met(self, kinds: Sequence[Sequence[Span]], cores: int, condition: Condition) -> Iterator[bool]:
        """Whether a condition holds for the calls of tiles with such pieces along each dim, of which each is of another
        kind: for one of all calls that are the same to it, and for that of the first tile first.
        """
        key = condition, cores
        if key not in self._met:
            self._met[key] = self.deciding(condition.names), {}
        dims, known = self._met[key]
        for spans in itertools.product(*[kinds[i] for i in dims]):
            if spans not in known:
                every = [pieces[0] for pieces in kinds]
                for i, span in zip(dims, spans, strict=True):
                    every[i] = span
                known[spans] = condition.holds(_Call(self, tuple(every)), cores)
            yield known[spans]

    def deciding(self, names: Iterable[str]) -> list[int]:
        """The dims along which a tile's place and length decide any of these arguments."""
        return sorted({i for name in names if name in self.scalars for i in self.scalars[name][1]})

    def value(self, name: str, spans: tuple[Span, ...]) -> float:
        """An argument of the call of a tile; KeyError where there is none that tells calls apart."""
        if name in self.pointers:
            return self.pointers[name]
        value, numbers = self.scalars[name]
        key, known = tuple([spans[i] for i in numbers]), self._values[name]
        if key not in known:
            known[key] = value_of(value, self.access, dict(zip(self.names, spans, strict=True)), 0, self.buffers)
        return known[key]

    def _dims(self, value: ArgValue) -> tuple[str, ...]:
        """The dims along which a tile's place and length decide an argument."""
        match value:
            case Extent(dim) | Start(dim):
                return (dim,)
            case First() | Last():
                return tuple(d.name for d in self.access.dims if d.kind == "reduction")
            case Stride(arg, axis) if arg not in self.buffers:
                return _dims_of(self.access.operand(arg).axes[axis + 1 :])
            case Length(arg, axis) | Offset(arg, axis):
                return _dims_of(self.access.operand(arg).axes[axis : axis + 1])
        return ()

    def kinds_of(self, dim: Dim, pieces: tuple[Span, ...]) -> list[Span]:
        """A piece of each kind along a dim: of each length, of a sum at its ends or inside, of each form of windows."""
        found: dict[tuple[object, ...], Span] = {}
        for start, length in pieces:
            ends = dim.kind == "reduction" and (start == 0, start + length == dim.size)
            windows = _windows(self.access, {dim.name: (start, length)})
            found.setdefault((length, ends, *windows), (start, length))
        return list(found.values())


class _Call(dict[str, float]):
    """The arguments of a call, each computed when a condition asks for it: most conditions ask for few."""

    def __init__(self, calls: Calls, spans: tuple[Span, ...]) -> None:
        super().__init__()
        self._calls, self._spans = calls, spans

    def __missing__(self, name: str) -> float:
        """The argument of that name."""
        value = self[name] = self._calls.value(name, self._spans)
        return value


def _dims_of(axes: Iterable[Axis]) -> tuple[str, ...]:
    return tuple(axis.dim for axis in axes if isinstance(axis, At | Windowed))


def _stays(value: ArgValue) -> bool:
    """Whether an argument is the same in all passes, and for all tiles of a kind: a tile's place is not."""
    return not isinstance(value, Flag | UpdateNumber | Start)


def _windows(access: Access, piece: Mapping[str, Span]) -> Iterator[tuple[int, int]]:
    """The length of each box along the axes that windows over a dim have, and where in it these begin."""
    for operand in access.operands:
        for axis, extent in zip(operand.axes, operand.view, strict=True):
            if isinstance(axis, Windowed) and axis.dim in piece:
                yield axis.span(piece, extent)[1], axis.offset(piece, extent)
