"""What ReduceSum and ReduceMean share: their axes, merged loops, and one kernel that sums in row-major order."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.declarations import Sums
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import measured
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    GradientBuilder,
    Kernel,
    Last,
    Operator,
    Sample,
    Stride,
    Work,
    rng,
    unsupported,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.view import normalized_axes, reshape_to

LOOPS = 3
"""Loops of the kernel over kept axes (k0..k2), and as many over reduced ones (r0..r2, outermost first)."""

KEPT, REDUCED = (tuple(f"{kind}{i}" for i in range(LOOPS)) for kind in "kr")
STRIDED = KEPT[:-1]
"""Kept axes along which results have a stride of their own; along the last they are neighbours."""


def reduce_kernel(symbol: str, sums: bool) -> Kernel:
    """A kernel of the six loops; one that sums carries what waits between tiles."""
    carried = (*((f"carry_{name}", "u32") for name in STRIDED), *CARRY_SCALARS) if sums else ()
    return Kernel(
        symbol,
        pointers=(("x", "float32", False), ("y", "float32", True), *((CARRY,) if sums else ())),
        scalars=(
            *((name, "u32") for name in (*KEPT, *REDUCED)),
            *((f"x_{name}", "u32") for name in (*KEPT, *REDUCED)),
            *((f"y_{name}", "u32") for name in STRIDED),
            *carried,
            *(("first", "u32"), ("last", "u32"), ("count", "f32")),
        ),
    )


class Reducing(Operator):
    """What becomes of the elements along `axes`, as attribute or input, all axes where absent."""

    static_inputs: ClassVar[dict[int, str]] = {1: "axes"}
    flags = ("keepdims", "noop_with_empty_axes")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The input's shape without the reduced axes, or with length one for each of them under `keepdims`."""
        x = operands(node, inputs, 1)[0]
        axes = self.axes(node, x)
        keep = node.attr_int("keepdims", 1)
        shape = (1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
        return (TensorType(x.dtype, tuple(shape)),)

    def axes(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The axes to reduce, counted from the front."""
        numbers = node.attr_ints("axes", ()) if "axes" in node.attrs else ()
        if not numbers:
            return () if node.attr_int("noop_with_empty_axes", 0) else tuple(range(len(x.shape)))
        return normalized_axes(node, numbers, len(x.shape), (x,))

    def column(self, node: Node, name: str, b: GradientBuilder) -> str:
        """Y, or its gradient, with an axis of length one in place of each reduced one."""
        x = b.type(node.inputs[0])
        axes = self.axes(node, x)
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        if b.type(node.outputs[0]).shape == shape:
            return name
        column = b.temp("column")
        reshape_to(b, name, shape, column)
        return column

    def samples(self) -> Iterator[Sample]:
        """All axes, single, several, unsorted and negative ones, with and without keepdims, and the views."""
        r = rng(31)
        yield Sample("all", (normal(r, 5, 7),))
        yield Sample("all_scalar", (normal(r, 5, 7),), {"keepdims": 0})
        yield Sample("rows", (normal(r, 5, 7),), {"axes": (0,), "keepdims": 0})
        yield Sample("columns", (normal(r, 5, 7),), {"axes": 1, "keepdims": 1})
        yield Sample("unsorted", (normal(r, 3, 5, 2, 7),), {"axes": (-1, 0), "keepdims": 0})
        yield Sample("middle", (normal(r, 2, 3, 5),), {"axes": (1,)})
        yield Sample("channels", (normal(r, 3, 4, 5, 6),), {"axes": (0, 2, 3), "keepdims": 0})
        yield Sample("six_loops", (normal(r, 2, 3, 2, 3, 2, 3),), {"axes": (1, 3, 5)})
        yield Sample("long", (normal(r, 3, 7, 2, 71),), {"axes": (1, 3)})
        yield Sample("long_rows", (normal(r, 133, 5),), {"axes": (0,), "keepdims": 0})
        yield Sample("noop", (normal(r, 3, 4),), {"noop_with_empty_axes": 1})
        yield Sample("ones", (normal(r, 3, 1, 4),), {"axes": (1,), "keepdims": 0})


class Reduction(Reducing):
    """Sum over `axes`, divided by a count."""

    kernel: ClassVar[Kernel] = reduce_kernel("reduce_f32", sums=True)
    sums: ClassVar[Sums | None] = Sums(REDUCED)
    mean = False

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's sum or mean."""
        x = arrays(inputs, 1)[0]
        axes = self.axes(node, TensorType("float32", x.shape))
        total = x.sum(axes, dtype=x.dtype, keepdims=bool(node.attr_int("keepdims", 1)))
        if self.mean:
            total = total / x.dtype.type(math.prod(x.shape[i] for i in axes))
        return (total.astype(x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A view where every reduced axis has one element."""
        x = operands(node, inputs, 1)[0]
        if any(x.shape[axis] != 1 for axis in self.axes(node, x)):
            return None
        shape = self.infer(node, inputs)[0].shape
        return [Node(node.name, "Reshape", node.inputs[:1], node.outputs, {"shape": shape})]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY (over the count, for a mean) repeated along the reduced axes."""
        if not b.needs_grad(0):
            return
        x, dy = b.type(node.inputs[0]), douts[0]
        axes = self.axes(node, x)
        if self.mean:
            scaled = b.temp("scaled")
            count = np.array(math.prod(x.shape[axis] for axis in axes), np.float32)
            b.emit("Div", (dy, b.constant("count", count)), (scaled,))
            dy = scaled
        expand_to(b, self.column(node, dy, b), x.shape, b.grad(0))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims k0..k2, reduction dims r0..r2."""
        x = types[node.inputs[0]]
        axes = self.axes(node, x)
        groups: list[tuple[bool, int]] = []
        for axis, size in enumerate(x.shape):
            if size == 1:
                continue
            if groups and groups[-1][0] == (axis in axes):
                groups[-1] = (groups[-1][0], groups[-1][1] * size)
            else:
                groups.append((axis in axes, size))
        counts = {kind: sum(reduced is kind for reduced, _ in groups) for kind in (False, True)}
        if max(counts.values()) > LOOPS:
            raise unsupported(
                node, f"axes {axes} of {x} alternate too often", f"at most {LOOPS} runs of neighbouring axes"
            )
        names = {kind: iter((REDUCED if kind else KEPT)[LOOPS - counts[kind] :]) for kind in (False, True)}
        dims = [Dim(next(names[kind]), size, "reduction" if kind else "parallel") for kind, size in groups]
        outer = [d for d in dims if d.kind == "parallel"]
        reduced = [d for d in dims if d.kind == "reduction"]
        y_axes: tuple[Axis, ...] = tuple(At(d.name) for d in outer) or (Broadcast(),)
        y_view = tuple(d.size for d in outer) or (1,)
        x_operand = Operand("x", node.inputs[0], "in", tuple(d.size for d in dims), tuple(At(d.name) for d in dims))
        y = Operand("y", node.outputs[0], "out", y_view, y_axes)
        carried = carry_operands(node, self.kernel, self.sums, y) if self.sums else ()
        return Access((*outer, *reduced), (x_operand, y, *carried))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides; a missing loop has length 1 and stride 0."""
        present = access.sizes
        values: dict[str, ArgValue] = {n: Extent(n) if n in present else Const(1) for n in (*KEPT, *REDUCED)}
        values |= {f"carry_{name}": Const(0) for name in STRIDED}
        for operand in access.operands:
            names = (*KEPT, *REDUCED) if operand.arg == "x" else STRIDED
            position = {axis.dim: i for i, axis in enumerate(operand.axes) if isinstance(axis, At)}
            for name in names:
                stride = Stride(operand.arg, position[name]) if name in position else Const(0)
                values[f"{operand.arg}_{name}"] = stride
        reduced = (d for d in access.dims if d.kind == "reduction")
        count = float(math.prod(d.size for d in reduced)) if self.mean else 1.0
        values |= {"first": First(), "last": Last(), "count": Const(count)}
        values |= carry_args(self.sums, access) if self.sums else {}
        return {name: values[name] for name, _ in self.kernel.scalars}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One addition per element; the outputs, which are what cores share, begin a run each."""
        outputs = math.prod(tile[d.name] for d in access.dims if d.kind == "parallel")
        reduced = {d.name for d in access.dims if d.kind == "reduction"}
        last = access.operand("x").axes[-1]
        form = "rows" if isinstance(last, At) and last.dim in reduced else "columns"
        return Work(0, math.prod(tile.values()), outputs, form, runs=outputs)

    def sweep(self) -> Iterator[Sample]:
        """Sums over rows, over columns and over everything."""
        r = rng(32)
        for rows, columns in measured("sums"):
            for axes in ((0,), (1,), (0, 1)):
                label = f"{rows}x{columns} {axes}"
                yield Sample(label, (normal(r, rows, columns),), {"axes": axes, "keepdims": 0})


def expand_to(b: GradientBuilder, name: str, shape: tuple[int, ...], out: str) -> None:
    """Emit `out` = `name` broadcast to that shape."""
    b.emit("Expand", (name, b.constant("shape", np.array(shape, np.int64))), (out,))


def share_gradient(operator: Reducing, node: Node, dy: str, b: GradientBuilder) -> None:
    """The gradient of an extremum: the elements that are equal to it share dY, as in PyTorch's amax and amin."""
    if not b.needs_grad(0):
        return
    x, shape = node.inputs[0], b.type(node.inputs[0]).shape
    mask, count, share = (b.temp(label) for label in ("mask", "count", "share"))
    b.emit("EqualMask", (x, operator.column(node, node.outputs[0], b)), (mask,))
    axes = np.array([axis for axis in operator.axes(node, b.type(x)) if shape[axis] > 1], np.int64)
    dy = operator.column(node, dy, b)
    if axes.size:
        b.emit("ReduceSum", (mask, b.constant("axes", axes)), (count,), keepdims=1)
        b.emit("Div", (dy, count), (share,))
        dy = share
    b.emit("Mul", (mask, dy), (b.grad(0),))
