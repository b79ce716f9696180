"""The tile loop of one step as C expressions: coordinates, lengths, boxes, transfers and kernel arguments."""

import math
from dataclasses import dataclass

from deployer.codegen.expr import Expr, add, mul, product, sub
from deployer.codegen.loop_views import sized
from deployer.core.access import Around, At, Axis, Broadcast, Reach, Whole, Window, Windowed, strides, whole_axes
from deployer.core.errors import InternalError
from deployer.core.operator import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride
from deployer.core.plan import PlanOperand, PlanStep

ELEMENT = 4
FLAG = "lazy_reset"


@dataclass(frozen=True)
class Move:
    """A transfer: bytes per run and (count, stride in bytes) levels, innermost first, of a box at `offset` elements."""

    offset: Expr
    run: Expr
    levels: tuple[tuple[Expr, Expr], ...]

    def call(self, direction: str, hop: int, outer: str, inner: str, name: str) -> str:
        """The HAL call that starts it; sizes are named after `name`."""
        address = str(add(outer, self.offset))
        ends = f"{inner}, {address}" if direction == "in" else f"{address}, {inner}"
        sizes = [sized(self.run, f"{name}_bytes")]
        for count, pitch in self.levels:
            sizes += [sized(count, f"{name}_rows"), sized(pitch, f"{name}_pitch")]
        return f"hal_dma_{direction}_{1 + len(self.levels)}d({', '.join([str(hop), ends, *sizes])})"


class TileLoop:
    """Expressions over the loop variables of a step, of its stage where `staged`; `outer` is the loop around it.

    `prefix` tells the fetched tile's variables from the computed one's, and the stage's from both.
    """

    def __init__(self, step: PlanStep, prefix: str = "", outer: "TileLoop | None" = None, staged: bool = False) -> None:
        self.step, self.prefix, self.outer, self.staged = step, prefix, outer, staged
        self.dims = {d.name: d for d in step.dims}
        order = step.staging.order if staged and step.staging else tuple(self.dims)
        self.tile = {d.name: d.outer if staged else d.tile for d in step.dims}
        self.pieces = {d.name: d.parts if staged else d.pieces for d in step.dims}
        self.split = [n for n in order if self.tile[n] < (self.dims[n].size if staged else self.dims[n].outer)]

    def whole(self, name: str) -> tuple[Expr, Expr]:
        """First index and length of what the loop cuts along a dim."""
        return (self.outer.start(name), self.outer.length(name)) if self.outer else (0, self.dims[name].size)

    def start(self, name: str) -> Expr:
        """First index of the tile along a dim."""
        return f"{self.prefix}{name}" if name in self.split else self.whole(name)[0]

    def end(self, name: str) -> str:
        """One past the last index of what the loop cuts along a dim."""
        start, length = self.whole(name)
        end = sized(length, f"stage_{name}_tile" if self.outer and name in self.outer.split else f"{name}_end")
        return f"{start} + {end}" if start else end

    def step_along(self, name: str) -> str:
        """Tile length along a dim, named."""
        return sized(self.tile[name], f"{'stage_' if self.staged else ''}{name}_tile")

    def length(self, name: str) -> Expr:
        """Tile length along a dim; a variable where some tiles are shorter."""
        if name not in self.split:
            return self.whole(name)[1]
        lengths = {length for _, length in self.pieces[name]}
        return lengths.pop() if len(lengths) == 1 else f"{self.prefix}{name}_len"

    def length_variables(self) -> dict[str, str]:
        """Names and definitions of the lengths that vary."""
        lines = {}
        for name in self.split:
            length = self.length(name)
            if isinstance(length, str):
                rest = f"{self.end(name)} - {self.start(name)}"
                lines[length] = f"const uint32_t {length} = hal_min({self.step_along(name)}, {rest});"
        for operand in self.step.operands:
            for index, (axis, extent) in enumerate(zip(operand.axes, operand.view, strict=True)):
                if isinstance(axis, Windowed) and axis.dim in self.split:
                    lines |= self._window_variables(operand, index, axis, extent)
        return lines

    def _window_variables(self, operand: PlanOperand, index: int, axis: Windowed, extent: int) -> dict[str, str]:
        """First index and length of a windowed axis, clipped to the axis."""
        low, length = self._window_names(operand, index)
        start, lines, rest = self.start(axis.dim), dict[str, str](), ""
        end = add(start, self.length(axis.dim))
        if isinstance(axis, Around):
            names = [f"{self.prefix}{operand.arg}_{index}_{what}" for what in ("first", "end")]
            for name, bound in zip(names, self._reached(axis.reach, axis.count), strict=True):
                lines[name] = f"const uint32_t {name} = {bound};"
            start, end, rest = *names, f"{names[1]} == {names[0]} ? 0 : "
        if isinstance(axis, Reach):
            first, last = self._reached(axis, extent)
        else:
            behind, ahead = max(axis.pad, 0), max(-axis.pad, 0)
            over = (axis.kernel - 1) * axis.dilation + 1 - axis.stride
            size = sized(extent, f"{operand.arg}_{index}_size")
            first = f"hal_window({add(mul(start, axis.stride), ahead)}, {behind}, {size})"
            last = f"hal_window({add(mul(end, axis.stride), over + ahead)}, {behind}, {size})"
        lines[low] = f"const uint32_t {low} = {first};"
        lines[length] = f"const uint32_t {length} = {rest}{last} - {low};"
        return lines

    def _reached(self, axis: Reach, extent: int) -> tuple[str, str]:
        """The first window that holds an index of the tile, and one past the last."""
        start, count = self.start(axis.dim), self.length(axis.dim)
        behind, ahead, reach = max(axis.pad, 0), max(-axis.pad, 0), (axis.kernel - 1) * axis.dilation
        return (
            f"hal_reach({add(start, behind)}, {reach + ahead}, {axis.stride}, {extent})",
            f"hal_reach({add(start, count, behind)}, {ahead}, {axis.stride}, {extent})",
        )

    def _lengths(self, axis: Windowed, extent: int) -> set[int]:
        """The lengths on a windowed axis over all tiles."""
        return {axis.span({axis.dim: piece}, extent)[1] for piece in self.pieces[axis.dim]}

    def _window_names(self, operand: PlanOperand, index: int) -> tuple[str, str]:
        name = f"{self.prefix}{operand.arg}_{index}"
        return f"{name}_low", f"{name}_len"

    def coordinates(self) -> list[str]:
        """Declarators of the loop variables at the first tile."""
        return [f"{self.start(n)} = {self.whole(n)[0]}" for n in self.split]

    def count(self) -> Expr:
        """Number of tiles in one pass of the loop."""
        counts: list[Expr] = []
        for name in self.split:
            length, tile = self.whole(name)[1], self.tile[name]
            counts.append(-(-length // tile) if isinstance(length, int) else f"(({length} + {tile - 1}) / {tile})")
        return product(counts)

    def advance(self) -> list[str]:
        """Statements that step to the next tile, innermost dim first."""
        lines: list[str] = []
        for depth, dim in enumerate(reversed(self.split)):
            name, pad = self.start(dim), "    " * depth
            lines.append(f"{pad}{name} += {self.step_along(dim)};")
            if depth + 1 < len(self.split):
                lines.append(f"{pad}if ({name} >= {self.end(dim)}) {{")
                lines.append(f"{pad}    {name} = {self.whole(dim)[0]};")
        lines += ["    " * depth + "}" for depth in reversed(range(len(self.split) - 1))]
        return lines

    def inner(self, operand: PlanOperand) -> list[str]:
        """Split dims that advance without changing the operand's box."""
        used = {a.dim for a in operand.axes if not isinstance(a, (Whole, Broadcast))}
        last = max((i for i, name in enumerate(self.split) if name in used), default=-1)
        return self.split[last + 1 :]

    def begins(self, operand: PlanOperand) -> str:
        """Condition that this tile is the first on its box; empty where every tile is."""
        return self._at_first(self.inner(operand))

    def ends(self, operand: PlanOperand) -> str:
        """Condition that this tile is the last on its box; empty where every tile is."""
        return self._at_last(self.inner(operand))

    def _sums(self) -> list[str]:
        """The reductions that are split."""
        return [name for name in self.split if self.dims[name].reduction]

    def _at_first(self, names: list[str]) -> str:
        """Condition that the tile is the first along all these dims; empty where there are none."""
        return " && ".join(f"{self.start(n)} == {self.whole(n)[0]}" for n in names)

    def _at_last(self, names: list[str]) -> str:
        """The same for the last tile."""
        return " && ".join(f"{self.start(n)} + {self.step_along(n)} >= {self.end(n)}" for n in names)

    def box(self, operand: PlanOperand) -> list[tuple[Expr, Expr]]:
        """(first index, length) per view axis."""
        spans: list[tuple[Expr, Expr]] = []
        for index, (axis, extent) in enumerate(zip(operand.axes, operand.view, strict=True)):
            if isinstance(axis, At):
                spans.append((self.start(axis.dim), self.length(axis.dim)))
            elif isinstance(axis, Whole):
                spans.append((0, extent))
            elif isinstance(axis, Broadcast):
                spans.append((0, 1))
            elif axis.dim in self.split:
                low, length = self._window_names(operand, index)
                lengths = self._lengths(axis, extent)
                spans.append((low, lengths.pop() if len(lengths) == 1 else length))
            elif self.outer:
                spans.append(self.outer.box(operand)[index])
            else:
                spans.append(axis.span({axis.dim: (0, self.dims[axis.dim].size)}, extent))
        return spans

    def container(self, operand: PlanOperand) -> list[tuple[Expr, Expr]]:
        """(first index, length) per view axis of what the operand's boxes are cut from: tensor or stage's slot."""
        if self.outer and operand.stage_slots:
            return self.outer.box(operand)
        return [(0, extent) for extent in operand.view]

    def move(self, operand: PlanOperand) -> Move:
        """The transfer of the operand's box from where it is cut; one of no bytes where the box is empty.

        An axis on which tiles have one element or none needs no level: its length is a factor of the run.
        """
        run: Expr = 1
        levels: list[tuple[Expr, Expr]] = []
        offsets: list[Expr] = []
        stride: Expr = 1
        contiguous, joined = True, False
        axes = zip(
            operand.axes, operand.view, self.container(operand), self.box(operand), self._whole(operand), strict=True
        )
        for axis, extent, (base, room), (low, length), whole in reversed(list(axes)):
            if isinstance(axis, Windowed) and max(self._lengths(axis, extent)) <= 1:
                run, length = mul(length, run), 1
            if contiguous:
                run = mul(length, run)
            elif length != 1 or whole:
                if joined:
                    levels[-1] = (mul(length, levels[-1][0]), levels[-1][1])
                elif length != 1:
                    levels.append((length, mul(stride, ELEMENT)))
            offsets.insert(0, self._pitched(operand, axis, mul(sub(low, base), stride)))
            joined = not contiguous and bool(levels) and (joined or length != 1) and (whole or room == 1)
            contiguous = contiguous and (whole or room == 1)
            stride = mul(room, stride)
        return Move(add(*offsets), mul(run, ELEMENT), tuple(levels))

    def _pitched(self, operand: PlanOperand, axis: Axis, offset: Expr) -> Expr:
        """An offset along an axis with its factor, the elements between neighbours, named."""
        if isinstance(offset, int) or isinstance(axis, (Whole, Broadcast)):
            return offset
        return sized(offset, f"{operand.arg}_{axis.dim}_pitch")

    def _whole(self, operand: PlanOperand) -> tuple[bool, ...]:
        """Per view axis, whether every tile has all of what it is cut from."""
        staged = bool(self.outer and operand.stage_slots)
        cuts = {n: (d.size, d.outer if self.outer else d.size, self.tile[n]) for n, d in self.dims.items()}
        return whole_axes(operand.axes, operand.view, cuts, staged)

    def element(self, operand: PlanOperand) -> Expr:
        """Index in the whole tensor of the box's first element."""
        axes = zip(operand.axes, self.box(operand), strides(operand.view), strict=True)
        return add(*(self._pitched(operand, axis, mul(low, stride)) for axis, (low, _), stride in axes))

    def stride(self, operand: PlanOperand, axis: int) -> Expr:
        """Elements between neighbours along an axis: of the tensor where resident, of the packed box in a slot."""
        if isinstance(operand.axes[axis], Broadcast):
            return 0
        if operand.slots == 0:
            return strides(operand.view)[axis]
        return product([length for _, length in self.box(operand)[axis + 1 :]])

    def argument(self, value: ArgValue) -> Expr:
        """C text of a kernel argument."""
        match value:
            case Const(v):
                return v if isinstance(v, int) else f"{float_literal(v)}"
            case Extent(dim):
                return self.length(dim)
            case Start(dim):
                return self.start(dim)
            case Stride(arg, axis):
                return self.stride(self._operand(arg), axis)
            case First():
                return self._at_first(self._sums()) or 1
            case Last():
                return self._at_last(self._sums()) or 1
            case Flag():
                return FLAG
            case Length(arg, axis):
                return self.box(self._operand(arg))[axis][1]
            case Offset(arg, axis):
                return self._offset(self._operand(arg), axis)
        raise InternalError(f"{value} has no C form")

    def _operand(self, arg: str) -> PlanOperand:
        return next(o for o in self.step.operands if o.arg == arg)

    def _offset(self, operand: PlanOperand, index: int) -> Expr:
        """Where windows begin, counted from the box's first index."""
        axis, extent = operand.axes[index], operand.view[index]
        if not isinstance(axis, Windowed):
            raise InternalError(f"operand {operand.arg} has no window on axis {index}")
        low, _ = self.box(operand)[index]
        if isinstance(low, int):
            return axis.offset({axis.dim: self.pieces[axis.dim][0]}, extent)
        if isinstance(axis, Around):
            return f"(int32_t)({self.start(axis.dim)}) - (int32_t){low}"
        behind, ahead = max(axis.pad, 0), max(-axis.pad, 0)
        if isinstance(axis, Window):
            first = add(mul(self.start(axis.dim), axis.stride), ahead)
            return f"(int32_t)({first}) - {behind} - (int32_t){low}"
        at = f"(int32_t)({add(self.start(axis.dim), behind)})" + (f" - {ahead}" if ahead else "")
        return f"{at} - (int32_t)({mul(low, axis.stride)})"


def float_literal(value: float) -> str:
    """The float32 nearest to the value as a C hexadecimal literal with the decimal beside it."""
    import numpy as np

    nearest = float(np.float32(value))
    if math.isinf(nearest):
        return "__builtin_inff()" if nearest > 0 else "-__builtin_inff()"
    if nearest == int(nearest) and abs(nearest) < 1e6:
        return f"{nearest:.1f}f"
    return f"{nearest.hex()}f /* {nearest:.9g} */"
