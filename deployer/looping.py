"""The tile loop of one step as C expressions: coordinates, lengths, boxes, transfers and kernel arguments."""

from dataclasses import dataclass

from deployer.access import At, Broadcast, Reach, Whole, Window, strides
from deployer.errors import InternalError
from deployer.expr import Expr, add, mul, product
from deployer.operator import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride
from deployer.plan import PlanDim, PlanOperand, PlanStep

ELEMENT = 4
FLAG = "lazy_reset"


@dataclass(frozen=True)
class Move:
    """A transfer: bytes per run and (count, stride in bytes) levels, innermost first, of a box at `offset` elements."""

    offset: Expr
    run: Expr
    levels: tuple[tuple[Expr, int], ...]

    def call(self, direction: str, hop: int, outer: str, inner: str) -> str:
        """The HAL call that starts it."""
        address = str(add(outer, self.offset))
        ends = f"{inner}, {address}" if direction == "in" else f"{address}, {inner}"
        levels = [str(x) for level in self.levels for x in level]
        return f"hal_dma_{direction}_{1 + len(self.levels)}d({', '.join([str(hop), ends, str(self.run), *levels])})"


class TileLoop:
    """Expressions over the loop variables of a step; `prefix` tells the fetched tile's from the computed one's."""

    def __init__(self, step: PlanStep, prefix: str = "") -> None:
        self.step = step
        self.prefix = prefix
        self.dims = {d.name: d for d in step.dims}
        self.split = [d for d in step.dims if d.count > 1]

    def start(self, name: str) -> Expr:
        """First index of the tile along a dim."""
        return f"{self.prefix}{name}" if self.dims[name].count > 1 else 0

    def length(self, name: str) -> Expr:
        """Tile length along a dim; a variable where the last tile is shorter."""
        dim = self.dims[name]
        if dim.count == 1:
            return dim.size
        return dim.tile if dim.size % dim.tile == 0 else f"{self.prefix}{name}_len"

    def length_variables(self) -> dict[str, str]:
        """Names and definitions of the lengths that vary."""
        lines = {}
        for dim in self.split:
            name = self.length(dim.name)
            if isinstance(name, str):
                lines[name] = f"const uint32_t {name} = hal_min({dim.tile}, {dim.size} - {self.start(dim.name)});"
        for operand in self.step.operands:
            for index, (axis, extent) in enumerate(zip(operand.axes, operand.view, strict=True)):
                if isinstance(axis, Window | Reach) and self.dims[axis.dim].count > 1:
                    lines |= self._window_variables(operand, index, axis, extent)
        return lines

    def _window_variables(self, operand: PlanOperand, index: int, axis: Window | Reach, extent: int) -> dict[str, str]:
        """First index and length of a windowed axis, clipped to the axis."""
        low, length = self._window_names(operand, index)
        start, count = self.start(axis.dim), self.length(axis.dim)
        if isinstance(axis, Window):
            end = add(mul(add(start, count), axis.stride), axis.longest(1) - axis.stride)
            first = f"hal_window({mul(start, axis.stride)}, {axis.pad}, {extent})"
            last = f"hal_window({end}, {axis.pad}, {extent})"
        else:
            reach = (axis.kernel - 1) * axis.dilation
            first = f"hal_reach({add(start, axis.pad)}, {reach}, {axis.stride}, {extent})"
            last = f"hal_reach({add(start, count, axis.pad)}, 0, {axis.stride}, {extent})"
        return {
            low: f"const uint32_t {low} = {first};",
            length: f"const uint32_t {length} = {last} - {low};",
        }

    def _window_names(self, operand: PlanOperand, index: int) -> tuple[str, str]:
        name = f"{self.prefix}{operand.arg}_{index}"
        return f"{name}_low", f"{name}_len"

    def coordinates(self) -> str:
        """Definition of the loop variables at the first tile."""
        return "uint32_t " + ", ".join(f"{self.start(d.name)} = 0" for d in self.split) + ";"

    def advance(self) -> list[str]:
        """Statements that step to the next tile, innermost dim first."""
        lines: list[str] = []
        for depth, dim in enumerate(reversed(self.split)):
            name, pad = self.start(dim.name), "    " * depth
            lines.append(f"{pad}{name} += {dim.tile};")
            if depth + 1 < len(self.split):
                lines.append(f"{pad}if ({name} >= {dim.size}) {{")
                lines.append(f"{pad}    {name} = 0;")
        lines += ["    " * depth + "}" for depth in reversed(range(len(self.split) - 1))]
        return lines

    def inner(self, operand: PlanOperand) -> list[PlanDim]:
        """Split dims that advance without changing the operand's box."""
        used = {a.dim for a in operand.axes if not isinstance(a, (Whole, Broadcast))}
        last = max((i for i, d in enumerate(self.split) if d.name in used), default=-1)
        return self.split[last + 1 :]

    def begins(self, operand: PlanOperand) -> str:
        """Condition that this tile is the first on its box; empty where every tile is."""
        return " && ".join(f"{self.start(d.name)} == 0" for d in self.inner(operand))

    def ends(self, operand: PlanOperand) -> str:
        """Condition that this tile is the last on its box; empty where every tile is."""
        return " && ".join(f"{self.start(d.name)} + {d.tile} >= {d.size}" for d in self.inner(operand))

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
            elif self.dims[axis.dim].count == 1:
                spans.append(axis.span({axis.dim: (0, self.dims[axis.dim].size)}, extent))
            else:
                spans.append(self._window_names(operand, index))
        return spans

    def element(self, operand: PlanOperand) -> Expr:
        """Index in the whole tensor of the box's first element."""
        return add(*(mul(s, w) for (s, _), w in zip(self.box(operand), strides(operand.view), strict=True)))

    def move(self, operand: PlanOperand) -> Move:
        """The transfer of the operand's box."""
        run: Expr = 1
        levels: list[tuple[Expr, int]] = []
        stride, contiguous = 1, True
        for extent, (_, length) in reversed(list(zip(operand.view, self.box(operand), strict=True))):
            if contiguous:
                run = mul(length, run)
            elif length != 1:
                if levels and isinstance(levels[-1][0], int) and levels[-1][0] * levels[-1][1] == stride * ELEMENT:
                    levels[-1] = (mul(length, levels[-1][0]), levels[-1][1])
                else:
                    levels.append((length, stride * ELEMENT))
            contiguous = contiguous and length == extent
            stride *= extent
        return Move(self.element(operand), mul(run, ELEMENT), tuple(levels))

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
            case First(dim):
                return 1 if self.dims[dim].count == 1 else f"{self.start(dim)} == 0"
            case Last(dim):
                d = self.dims[dim]
                return 1 if d.count == 1 else f"{self.start(dim)} + {d.tile} >= {d.size}"
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
        if not isinstance(axis, Window | Reach):
            raise InternalError(f"operand {operand.arg} has no window on axis {index}")
        dim = self.dims[axis.dim]
        if dim.count == 1:
            return axis.offset({axis.dim: (0, dim.size)}, extent)
        low, _ = self._window_names(operand, index)
        if isinstance(axis, Window):
            return f"(int32_t)({mul(self.start(axis.dim), axis.stride)}) - {axis.pad} - (int32_t){low}"
        return f"(int32_t)({add(self.start(axis.dim), axis.pad)}) - (int32_t)({mul(low, axis.stride)})"


def float_literal(value: float) -> str:
    """The float32 nearest to the value as a C hexadecimal literal with the decimal beside it."""
    import numpy as np

    nearest = float(np.float32(value))
    if nearest == int(nearest) and abs(nearest) < 1e6:
        return f"{int(nearest)}.0f"
    return f"{nearest.hex()}f /* {nearest:.9g} */"
