"""The trace that a plan prescribes, as tables of SimulationMap.c: tiles of each dim, and the indices that they touch.

The simulator walks these tables and compares each transfer and kernel call with them. This module does not call the
lowering of loops, so the tables and the generated code are two derivations of one plan.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.access import At, Axis, Broadcast, Windowed
from deployer.core.errors import InternalError
from deployer.core.kernel import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Start, Stride, UpdateNumber
from deployer.core.plan import PlanOperand, PlanStep
from deployer.core.safe_text import CText, code
from deployer.loops.tile_loop import NUMBERS
from deployer.verify.boxes import Span, cuts

NONE = "HAL_SIM_NONE"
WIDTH = 110


@dataclass(frozen=True)
class TraceTableView:
    """A constant array: its C type, name, and entries in lines."""

    type: CText
    name: CText
    lines: tuple[CText, ...]


class TraceTables:
    """The arrays of a map; equal ones are one array, which steps share."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, tuple[str, ...]], str] = {}

    def put(self, kind: str, entries: Iterable[str]) -> CText:
        """The name of an array of that C type with these entries, or NULL if there are none."""
        key = (kind, tuple(entries))
        if not key[1]:
            return code("NULL")
        label = kind.removeprefix("hal_sim_").removesuffix("_t")
        return code(self.names.setdefault(key, f"{label}_{len(self.names)}"))

    def views(self) -> tuple[TraceTableView, ...]:
        """All arrays, each after those to which it refers."""
        return tuple(
            TraceTableView(code(kind), code(name), _lines(entries)) for (kind, entries), name in self.names.items()
        )

    def spans(self, spans: Iterable[Span]) -> CText:
        """An array of spans."""
        return self.put("hal_sim_span_t", (f"{{{first}, {length}}}" for first, length in spans))

    def numbers(self, kind: str, numbers: Iterable[int]) -> CText:
        """An array of numbers."""
        return self.put(kind, map(str, numbers))


def _lines(entries: Sequence[str]) -> tuple[CText, ...]:
    glued = ", ".join(entry.replace(" ", "\0") for entry in entries)
    return tuple(code(line.replace("\0", " ")) for line in textwrap.wrap(glued, WIDTH, break_long_words=False))


@dataclass(frozen=True)
class TracePlace:
    """The buffers of an operand, its home and its slots by level, as numbers or NONE."""

    home: int
    slots: tuple[int | str, ...]


class Loops:
    """The loops of a step: parts and pieces of every dim, in the order of the tile loop."""

    def __init__(self, step: PlanStep) -> None:
        self.step = step
        self.number = {d.name: i for i, d in enumerate(step.dims)}
        self.outer_spans = {d.name: cuts(d.size, d.outer) for d in step.dims}
        self.cut = {
            d.name: [[(start + s, n) for s, n in cuts(length, d.tile)] for start, length in self.outer_spans[d.name]]
            for d in step.dims
        }
        self.pieces = {name: [piece for span in spans for piece in span] for name, spans in self.cut.items()}
        self.order = tuple(d.name for d in step.dims)
        self.stage_order = step.staging.order if step.staging else self.order

    def depths(self, operand: PlanOperand) -> tuple[int, int]:
        """Loop depths (tile loop, stage loop) of the box's innermost split dim: the dims that change the box."""
        dims = {axis.dim for axis in operand.axes if isinstance(axis, At | Windowed)}
        tiled = {name for name, spans in self.cut.items() if max(map(len, spans)) > 1}
        staged = {name for name, spans in self.outer_spans.items() if len(spans) > 1}
        inner = [i for i, name in enumerate(self.order) if name in dims & tiled]
        outer = [i for i, name in enumerate(self.stage_order) if name in dims & staged]
        return max(inner, default=-1) + 1, max(outer, default=-1) + 1

    def dims(self, tables: TraceTables) -> CText:
        """The table of dims."""
        rows = []
        for d in self.step.dims:
            ends = np.cumsum([len(spans) for spans in self.cut[d.name]]).tolist()
            counts, pieces = tables.numbers("uint32_t", ends), tables.spans(self.pieces[d.name])
            rows.append(f'{{"{d.name}", {len(ends)}, {counts}, {pieces}, {int(d.reduction)}}}')
        return tables.put("hal_sim_dim_t", rows)

    def order_numbers(self, tables: TraceTables) -> CText:
        """The stage's loop order, as numbers of dims."""
        return tables.numbers("uint32_t", (self.number[name] for name in self.stage_order))

    def _axis(self, axis: Axis, extent: int, tables: TraceTables) -> str:
        if not isinstance(axis, At | Windowed):
            span = tables.spans([axis.span({}, extent)])
            return f"{{{NONE}, {extent}, {span}, {span}}}"
        pieces, outer = (
            tables.spans(axis.span({axis.dim: span}, extent) for span in spans[axis.dim])
            for spans in (self.pieces, self.outer_spans)
        )
        return f"{{{self.number[axis.dim]}, {extent}, {pieces}, {outer}}}"

    def operands(self, tables: TraceTables, places: Sequence[TracePlace]) -> CText:
        """The table of operands."""
        rows = []
        for o, where in zip(self.step.operands, places, strict=True):
            axes = [self._axis(a, n, tables) for a, n in zip(o.axes, o.view, strict=True)]
            moved, (depths, stage_depths) = bool(o.slots), self.depths(o)
            writes = int(o.mode != "in")
            flags = (writes, int(moved and o.mode != "out"), int(moved and writes), int(o.overwrite_on_first_pass))
            buffers = (where.home, *where.slots, depths, stage_depths, self.step.kernel.element_bytes(o.arg), len(axes))
            numbers = ", ".join(map(str, (*flags, *buffers)))
            field = f"offsetof({self.step.kernel.symbol}_args_t, {o.arg})"
            rows.append(f'{{"{o.arg}", {field}, {numbers}, {tables.put("hal_sim_axis_t", axes)}}}')
        return tables.put("hal_sim_operand_t", rows)

    def scalars(self, tables: TraceTables) -> tuple[CText, int]:
        """The table of the scalars and of the pointers that must be null, and its length."""
        kernel = self.step.kernel
        present = {o.arg for o in self.step.operands}
        rows = [(name, "HAL_SIM_NULL, 0, 0, 0, NULL") for name, _, _ in kernel.pointers if name not in present]
        rows += [(name, self._scalar(self.step.args[name], kind, tables)) for name, kind in kernel.scalars]
        texts = [f'{{"{name}", offsetof({kernel.symbol}_args_t, {name}), {source}}}' for name, source in rows]
        return tables.put("hal_sim_scalar_t", texts), len(texts)

    def _scalar(self, value: ArgValue, kind: str, tables: TraceTables) -> str:
        match value:
            case Const(number):
                return _constant(number, kind)
            case Extent(dim):
                return f"HAL_SIM_EXTENT, {self.number[dim]}, 0, 0, NULL"
            case Start(dim):
                return f"HAL_SIM_START, {self.number[dim]}, 0, 0, NULL"
            case First():
                return "HAL_SIM_FIRST, 0, 0, 0, NULL"
            case Last():
                return "HAL_SIM_LAST, 0, 0, 0, NULL"
            case Flag():
                return "HAL_SIM_FLAG, 0, 0, 0, NULL"
            case UpdateNumber(place):
                return f"HAL_SIM_NUMBER, 0, 0, 0, {NUMBERS} + {place}"
            case Length(arg, axis):
                return f"HAL_SIM_LENGTH, {self._operand(arg)}, {axis}, 0, NULL"
            case Stride(arg, axis):
                return self._stride(self._operand(arg), axis)
            case Offset(arg, axis):
                return self._offset(self._operand(arg), axis, tables)
        raise InternalError(f"{value} has no form in the simulation map")

    def _operand(self, arg: str) -> int:
        return next(i for i, o in enumerate(self.step.operands) if o.arg == arg)

    def _stride(self, index: int, axis: int) -> str:
        """The stride of the packed box if the operand has slots, else of the tensor."""
        o = self.step.operands[index]
        if isinstance(o.axes[axis], Broadcast):
            return _constant(0, "u32")
        if o.slots:
            return f"HAL_SIM_STRIDE, {index}, {axis}, 0, NULL"
        return _constant(int(np.prod(o.view[axis + 1 :], dtype=np.int64)), "u32")

    def _offset(self, index: int, axis: int, tables: TraceTables) -> str:
        mapped, extent = self.step.operands[index].axes[axis], self.step.operands[index].view[axis]
        if not isinstance(mapped, Windowed):
            raise InternalError(f"an offset on axis {axis} of {self.step.name!r}, which has no window")
        entries = tables.numbers("int32_t", (mapped.offset({mapped.dim: p}, extent) for p in self.pieces[mapped.dim]))
        return f"HAL_SIM_ENTRY, {self.number[mapped.dim]}, 0, 0, {entries}"


def _constant(number: int | float, kind: str) -> str:
    """A scalar as its 32-bit word, so that zeros keep their sign."""
    word = np.float32(number) if kind == "f32" else np.int64(number).astype(np.uint32)
    return f"HAL_SIM_CONST, 0, 0, {int(word.view(np.uint32)):#x}, NULL"
