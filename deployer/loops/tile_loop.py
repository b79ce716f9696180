"""The tile loop of one step as expressions: coordinates, lengths, boxes, transfers and kernel arguments."""

from dataclasses import dataclass

from deployer.core.access import (
    Around,
    At,
    Axis,
    Broadcast,
    Mirror,
    Reach,
    Whole,
    Window,
    Windowed,
    full_axes,
    strides,
)
from deployer.core.errors import InternalError
from deployer.core.kernel import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride, UpdateNumber
from deployer.core.plan import PlanOperand, PlanStep
from deployer.expressions.tree import Expr, Number, Var
from deployer.expressions.words import add, all_of, div_up, moved, mul, sub, word
from deployer.loops.leaves import Element, SignedVar, SizeExpr, sized
from deployer.loops.loop_program import Direction, IfStmt, Increase, Let, Set, Statement, Transfer

FLAG = Var("lazy_reset")
"""The lazy-reset flag: 1 in the first of the passes that add to an accumulator, whose old content does not count."""
NUMBERS = "update_numbers"
"""The array of the float32 numbers that the running update has read."""


@dataclass(frozen=True)
class BoxMove:
    """The geometry of a box's transfer: the index of its first element, the bytes per run, and the strided levels.

    A level is (count, bytes from one repetition to the next); the innermost comes first.
    """

    offset: Expr
    run: Expr
    levels: tuple[tuple[Expr, Expr], ...]

    def transfer(self, direction: Direction, hop: int, outer: Expr, inner: Expr, name: str) -> Transfer:
        """The transfer between the array at address `outer` and a slot at `inner`; names of sizes start with `name`."""
        address = add(outer, self.offset)
        sizes = [sized(self.run, f"{name}_bytes")]
        for count, pitch in self.levels:
            sizes += [sized(count, f"{name}_rows"), sized(pitch, f"{name}_pitch")]
        target, source = (inner, address) if direction == "in" else (address, inner)
        return Transfer(direction, hop, target, source, tuple(sizes))


class TileLoop:
    """Expressions over the variables of a step's tile loop or, if `staged`, its stage's; `outer` is the next loop.

    Names of variables begin with `prefix`, which is different for the tile to fetch, the tile in use and the stage.
    """

    def __init__(self, step: PlanStep, prefix: str = "", outer: "TileLoop | None" = None, staged: bool = False) -> None:
        self.step, self.prefix, self.outer, self.staged = step, prefix, outer, staged
        self.dims = {d.name: d for d in step.dims}
        order = step.staging.order if staged and step.staging else tuple(self.dims)
        self.tile = {d.name: d.outer if staged else d.tile for d in step.dims}
        self.pieces = {d.name: d.outer_spans if staged else d.pieces for d in step.dims}
        self.split = [n for n in order if self.tile[n] < (self.dims[n].size if staged else self.dims[n].outer)]

    def outer_span(self, name: str) -> tuple[Expr, Expr]:
        """First index and length, along a dim, of the range that the loop divides into tiles."""
        return (self.outer.start(name), self.outer.length(name)) if self.outer else (0, self.dims[name].size)

    def coordinate(self, name: str) -> Var:
        """The loop variable of a dim: the first index of the current tile."""
        return Var(f"{self.prefix}{name}")

    def start(self, name: str) -> Expr:
        """First index of the tile along a dim."""
        return self.coordinate(name) if name in self.split else self.outer_span(name)[0]

    def end(self, name: str) -> Expr:
        """End, exclusive, of the range along a dim that the loop divides into tiles."""
        start, length = self.outer_span(name)
        end = sized(length, f"stage_{name}_tile" if self.outer and name in self.outer.split else f"{name}_end")
        return add(start, end)

    def step_length(self, name: str) -> SizeExpr:
        """The length of a full tile along a dim, as a constant with a name."""
        return SizeExpr(self.tile[name], f"{'stage_' if self.staged else ''}{name}_tile")

    def length(self, name: str) -> Expr:
        """Length of the current tile along a dim; a variable if some tiles are shorter."""
        if name not in self.split:
            return self.outer_span(name)[1]
        lengths = {length for _, length in self.pieces[name]}
        return lengths.pop() if len(lengths) == 1 else Var(f"{self.prefix}{name}_len")

    def lengths(self) -> list[Let]:
        """Definitions of the tile lengths that vary, and of first indices and lengths of clipped windows."""
        definitions: dict[str, Expr] = {}
        for name in self.split:
            length = self.length(name)
            if isinstance(length, Var):
                rest = word("sub", self.end(name), self.start(name))
                definitions[length.name] = word("min", self.step_length(name), rest)
        for operand in self.step.operands:
            for index, (axis, extent) in enumerate(zip(operand.axes, operand.view, strict=True)):
                if isinstance(axis, Windowed) and axis.dim in self.split:
                    definitions |= self._window(operand, index, axis, extent)
        return [Let(name, value) for name, value in definitions.items()]

    def _window(self, operand: PlanOperand, index: int, axis: Windowed, extent: int) -> dict[str, Expr]:
        """Definitions of the box's first index and length on a windowed axis, both clipped to the axis."""
        low, length = self._window_names(operand, index)
        start, definitions, empty = self.start(axis.dim), dict[str, Expr](), None
        end = add(start, self.length(axis.dim))
        if isinstance(axis, Around):
            names = [f"{self.prefix}{operand.arg}_{index}_{what}" for what in ("first", "end")]
            definitions |= dict(zip(names, self._reached(axis.reach, axis.count), strict=True))
            start, end = map(Var, names)
            empty = word("equal", end, start)
        first: Expr
        last: Expr
        if isinstance(axis, Reach):
            first, last = self._reached(axis, extent)
        else:
            pad, crop = max(axis.pad, 0), max(-axis.pad, 0)
            overlap = (axis.kernel - 1) * axis.dilation + 1 - axis.stride
            size = SizeExpr(extent, f"{operand.arg}_{index}_size")
            first = word("window", add(mul(start, axis.stride), crop), pad, size)
            last = word("window", add(mul(end, axis.stride), overlap + crop), pad, size)
        rest = word("sub", last, self._low(operand, index, axis, extent))
        definitions[low] = first
        definitions[length] = word("choose", empty, 0, rest) if empty else rest
        return definitions

    def _reached(self, axis: Reach, extent: int) -> tuple[Expr, Expr]:
        """The first window that contains an index of the tile, and the one after the last."""
        start, count = self.start(axis.dim), self.length(axis.dim)
        pad, crop, reach = max(axis.pad, 0), max(-axis.pad, 0), (axis.kernel - 1) * axis.dilation
        return (
            word("reach", add(start, pad), reach + crop, axis.stride, extent),
            word("reach", add(start, count, pad), crop, axis.stride, extent),
        )

    def _clipped_lengths(self, axis: Windowed, extent: int) -> set[int]:
        """The set of lengths that boxes have on a windowed axis, over all tiles."""
        return {axis.span({axis.dim: piece}, extent)[1] for piece in self.pieces[axis.dim]}

    def _steady(self, axis: Windowed, extent: int) -> int | None:
        """Return the axis's `offset` if all tiles have the same, else None, as if some begin in padding."""
        offsets = {axis.offset({axis.dim: piece}, extent) for piece in self.pieces[axis.dim]}
        return offsets.pop() if len(offsets) == 1 else None

    def _low(self, operand: PlanOperand, index: int, axis: Windowed, extent: int) -> Expr:
        """The box's first index on a windowed axis that is split: the tile's own, scaled and moved, or a variable."""
        steady, start = self._steady(axis, extent), self.start(axis.dim)
        if steady is not None and isinstance(axis, Window):
            return moved(mul(start, axis.stride), -axis.pad - steady)
        if steady is not None and isinstance(axis, Reach) and axis.stride == 1:
            return moved(start, axis.pad - steady)
        return Var(self._window_names(operand, index)[0])

    def _window_names(self, operand: PlanOperand, index: int) -> tuple[str, str]:
        name = f"{self.prefix}{operand.arg}_{index}"
        return f"{name}_low", f"{name}_len"

    def coordinates(self) -> dict[str, Expr]:
        """The loop variables at the first tile."""
        return {self.coordinate(n).name: self.outer_span(n)[0] for n in self.split}

    def count(self) -> Expr:
        """Number of tiles in one pass of the loop."""
        counts: list[Expr] = []
        for name in self.split:
            length, tile = self.outer_span(name)[1], self.tile[name]
            counts.append(div_up(length, tile))
        return mul(*counts)

    def advance(self) -> list[Statement]:
        """Statements that advance the loop variables to the next tile, the innermost dim first."""
        return self._advance(self.split)

    def _advance(self, dims: list[str]) -> list[Statement]:
        if not dims:
            return []
        name, at = dims[-1], self.coordinate(dims[-1])
        statements: list[Statement] = [Increase(at, self.step_length(name))]
        if dims[:-1]:
            reset = Set(at, self.outer_span(name)[0])
            statements.append(IfStmt(word("greater_equal", at, self.end(name)), (reset, *self._advance(dims[:-1]))))
        return statements

    def inner(self, operand: PlanOperand) -> list[str]:
        """The innermost split dims, along which the operand's box stays the same."""
        dims = {a.dim for a in operand.axes if not isinstance(a, (Whole, Broadcast))}
        last = max((i for i, name in enumerate(self.split) if name in dims), default=-1)
        return self.split[last + 1 :]

    def begins(self, operand: PlanOperand) -> list[Expr]:
        """Conditions under which this tile is the first with its box; none if every tile is."""
        return self._at_first(self.inner(operand))

    def ends(self, operand: PlanOperand) -> list[Expr]:
        """Conditions under which this tile is the last with its box; none if every tile is."""
        return self._at_last(self.inner(operand))

    def _sums(self) -> list[str]:
        """Names of the split reductions."""
        return [name for name in self.split if self.dims[name].reduction]

    def _at_first(self, names: list[str]) -> list[Expr]:
        """Conditions under which the tile is the first along each of the dims."""
        return [word("equal", self.start(n), self.outer_span(n)[0]) for n in names]

    def _at_last(self, names: list[str]) -> list[Expr]:
        """Conditions under which the tile is the last along each of the dims."""
        return [word("greater_equal", add(self.start(n), self.step_length(n)), self.end(n)) for n in names]

    def box(self, operand: PlanOperand) -> list[tuple[Expr, Expr]]:
        """(first index, length) per view axis."""
        spans: list[tuple[Expr, Expr]] = []
        for index, (axis, extent) in enumerate(zip(operand.axes, operand.view, strict=True)):
            if isinstance(axis, Mirror):
                spans.append(self._mirrored(operand, index, axis.dim))
            elif isinstance(axis, At):
                spans.append((self.start(axis.dim), self.length(axis.dim)))
            elif isinstance(axis, Whole):
                spans.append((0, extent))
            elif isinstance(axis, Broadcast):
                spans.append(axis.span({}, extent))
            elif axis.dim in self.split:
                low, (_, length) = self._low(operand, index, axis, extent), self._window_names(operand, index)
                lengths = self._clipped_lengths(axis, extent)
                spans.append((low, lengths.pop() if len(lengths) == 1 else Var(length)))
            elif self.outer:
                spans.append(self.outer.box(operand)[index])
            else:
                spans.append(axis.span({axis.dim: (0, self.dims[axis.dim].size)}, extent))
        return spans

    def _mirrored(self, operand: PlanOperand, index: int, dim: str) -> tuple[Expr, Expr]:
        """First index and length of the tile on an axis that runs against the dim."""
        start, length, extent = self.start(dim), self.length(dim), operand.view[index]
        if isinstance(start, int) and isinstance(length, int):
            return extent - start - length, length
        return word("sub", SizeExpr(extent, f"{operand.arg}_{index}_size"), start, length), length

    def container(self, operand: PlanOperand) -> list[tuple[Expr, Expr]]:
        """(first index, length) per view axis of the array that holds the boxes: the tensor, or a slot of the stage."""
        if self.outer and operand.stage_slots:
            return self.outer.box(operand)
        return [(0, extent) for extent in operand.view]

    def move(self, operand: PlanOperand) -> BoxMove:
        """The geometry of the transfer of the operand's box; an empty box has runs of 0 bytes.

        An axis on which no tile has more than one element needs no level: its length is a factor of the run.
        """
        run: Expr = 1
        element = self.step.kernel.element_bytes(operand.arg)
        levels: list[tuple[Expr, Expr]] = []
        offsets: list[Expr] = []
        stride: Expr = 1
        contiguous, joined = True, False
        axes = zip(
            operand.axes,
            operand.view,
            self.container(operand),
            self.box(operand),
            self._full_axes(operand),
            strict=True,
        )
        for axis, extent, (base, room), (low, length), full in reversed(list(axes)):
            if isinstance(axis, Windowed) and max(self._clipped_lengths(axis, extent)) <= 1:
                run, length = mul(length, run), 1
            if contiguous:
                run = mul(length, run)
            elif length != 1 or full:
                if joined:
                    levels[-1] = (mul(length, levels[-1][0]), levels[-1][1])
                elif length != 1:
                    levels.append((length, mul(stride, element)))
            offsets.insert(0, self._pitched(operand, axis, mul(sub(low, base), stride)))
            joined = not contiguous and bool(levels) and (joined or length != 1) and (full or room == 1)
            contiguous = contiguous and (full or room == 1)
            stride = mul(room, stride)
        return BoxMove(add(*offsets), mul(run, element), tuple(levels))

    def _pitched(self, operand: PlanOperand, axis: Axis, offset: Expr) -> Expr:
        """An offset along an axis, with a name for its factor, the elements from one index to the next."""
        if isinstance(offset, int) or isinstance(axis, (Whole, Broadcast)):
            return offset
        return sized(offset, f"{operand.arg}_{axis.dim}_pitch")

    def _full_axes(self, operand: PlanOperand) -> tuple[bool, ...]:
        """For each view axis, whether every box covers all of the array that holds it."""
        staged = bool(self.outer and operand.stage_slots)
        cuts = {n: (d.size, d.outer if self.outer else d.size, self.tile[n]) for n, d in self.dims.items()}
        return full_axes(operand.axes, operand.view, cuts, staged)

    def element(self, operand: PlanOperand) -> Expr:
        """Index of the box's first element in the tensor."""
        axes = zip(operand.axes, self.box(operand), strides(operand.view), strict=True)
        return add(*(self._pitched(operand, axis, mul(low, stride)) for axis, (low, _), stride in axes))

    def stride(self, operand: PlanOperand, axis: int) -> Expr:
        """Elements from one index to the next along an axis: in the tensor if resident, else in the packed box."""
        if isinstance(operand.axes[axis], Broadcast):
            return 0
        if operand.slots == 0:
            return strides(operand.view)[axis]
        return mul(*(length for _, length in self.box(operand)[axis + 1 :]))

    def argument(self, value: ArgValue) -> Expr:
        """The value of a kernel argument."""
        match value:
            case Const(v):
                return v if isinstance(v, int) else Number(v)
            case Extent(dim):
                return self.length(dim)
            case Start(dim):
                return self.start(dim)
            case Stride(arg, axis):
                return self.stride(self._operand(arg), axis)
            case First():
                return all_of(self._at_first(self._sums()))
            case Last():
                return all_of(self._at_last(self._sums()))
            case Flag():
                return FLAG
            case UpdateNumber(place):
                return Element(NUMBERS, SizeExpr(place, "number"))
            case Length(arg, axis):
                return self.box(self._operand(arg))[axis][1]
            case Offset(arg, axis):
                return self._offset(self._operand(arg), axis)
        raise InternalError(f"{value} has no expression")

    def _operand(self, arg: str) -> PlanOperand:
        return next(o for o in self.step.operands if o.arg == arg)

    def _offset(self, operand: PlanOperand, index: int) -> Expr:
        """Index at which the tile's windows begin on an axis, relative to the box's first index."""
        axis, extent = operand.axes[index], operand.view[index]
        if not isinstance(axis, Windowed):
            raise InternalError(f"operand {operand.arg} has no window on axis {index}")
        steady = self._steady(axis, extent)
        if steady is not None:
            return steady
        low, _ = self.box(operand)[index]
        if not isinstance(low, Var):
            raise InternalError(f"operand {operand.arg} has windows on axis {index} that begin in different places")
        if isinstance(axis, Around):
            return word("sub", word("signed", self.start(axis.dim)), SignedVar(low.name))
        pad, crop = max(axis.pad, 0), max(-axis.pad, 0)
        if isinstance(axis, Window):
            first = add(mul(self.start(axis.dim), axis.stride), crop)
            return word("sub", word("signed", first), pad, SignedVar(low.name))
        less = (crop,) if crop else ()
        start = word("signed", add(self.start(axis.dim), pad))
        return word("sub", start, *less, word("signed", mul(low, axis.stride)))


class FirstTile(TileLoop):
    """The first tile of a step's outermost loop, all of whose lengths are numbers."""

    def __init__(self, step: PlanStep, staged: bool) -> None:
        super().__init__(step, staged=staged)
        self.first = {name: pieces[0] for name, pieces in self.pieces.items()}

    def box(self, operand: PlanOperand) -> list[tuple[Expr, Expr]]:
        """(first index, length) per view axis."""
        return [axis.span(self.first, extent) for axis, extent in zip(operand.axes, operand.view, strict=True)]
