"""Reductions over axes: sum, mean, extremes, product and norms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Kernel, Last, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, execution_of, mismatch, register, unsupported
from deployer.core.signatures import LATE_AXES, Signature
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Numerics
from deployer.operators.base.integer_variants import over_integers
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.sums import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.base.views import normalized_axes, reshape_to


@register
class ReduceProdGrad(Operator):
    """For each element of a row dY times the product of all others, right with zeros among them.

    dY of each row, and X as rows. The product before an element is multiplied by that of dY and all behind it.
    """

    name = "ReduceProdGrad"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    kernel = Kernel(
        "reduce_prod_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=(("rows", "u32"), ("n", "u32"), ("x_r", "u32"), ("dx_r", "u32")),
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        dy, x = floats(node, inputs, 2)
        if len(x.shape) != 2 or dy.shape != x.shape[:1]:
            raise mismatch(node, "X is not rows with one dY each", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Products of what is before each element and of what is behind it."""
        dy, x = arrays(inputs, 2)
        before, behind = np.ones_like(x), np.ones_like(x)
        behind[:, -1] = dy
        for n in range(1, x.shape[1]):
            before[:, n] = before[:, n - 1] * x[:, n - 1]
            behind[:, -1 - n] = behind[:, -n] * x[:, -n]
        return (np.asarray(before * behind, x.dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One dim over rows, which are whole in every tile."""
        dy, x = node.inputs
        rows, n = types[x].shape
        row = (At("rows"), Whole())
        listed = (
            Operand("dy", dy, "in", (rows,), (At("rows"),)),
            Operand("x", x, "in", (rows, n), row),
            Operand("dx", node.outputs[0], "out", (rows, n), row),
        )
        return Access((Dim("rows", rows),), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Rows of the tile, their length, strides."""
        n = Const(access.operand("x").view[1])
        return {"rows": Extent("rows"), "n": n, "x_r": Stride("x", 0), "dx_r": Stride("dx", 0)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Three products per element."""
        count = tile["rows"] * access.operand("x").view[1]
        return Work(macs=0, elements=count, parallel=tile["rows"])


REDUCTION_LOOPS = 3
"""Loops of the kernel over kept axes (k0..k2), and as many over reduced ones (r0..r2, outermost first)."""

KEPT, REDUCED = (tuple(f"{kind}{i}" for i in range(REDUCTION_LOOPS)) for kind in "kr")
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
    """Reduces the elements along `axes`, an attribute or an input; all axes if absent."""

    file: ClassVar[FileSpec] = FileSpec(static_inputs={1: "axes"}, flags=("keepdims", "noop_with_empty_axes"))

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


class Reduction(Reducing):
    """Sum over `axes`, divided by a count."""

    kernel: ClassVar[Kernel] = reduce_kernel("reduce_f32", sums=True)
    execution: ClassVar[Execution | None] = Execution(sums=Sums(REDUCED))
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
        if max(counts.values()) > REDUCTION_LOOPS:
            raise unsupported(
                node, f"axes {axes} of {x} alternate too often", f"at most {REDUCTION_LOOPS} runs of neighbouring axes"
            )
        names = {kind: iter((REDUCED if kind else KEPT)[REDUCTION_LOOPS - counts[kind] :]) for kind in (False, True)}
        dims = [Dim(next(names[kind]), size, "reduction" if kind else "parallel") for kind, size in groups]
        outer = [d for d in dims if d.kind == "parallel"]
        reduced = [d for d in dims if d.kind == "reduction"]
        y_axes: tuple[Axis, ...] = tuple(At(d.name) for d in outer) or (Broadcast(),)
        y_view = tuple(d.size for d in outer) or (1,)
        x_operand = Operand("x", node.inputs[0], "in", tuple(d.size for d in dims), tuple(At(d.name) for d in dims))
        y = Operand("y", node.outputs[0], "out", y_view, y_axes)
        carried = carry_operands(node, self.kernel, execution_of(self).sums, y)
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
        values |= carry_args(execution_of(self).sums, access)
        return {name: values[name] for name, _ in self.kernel.scalars}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One addition per element; the outputs, which are what cores share, begin a run each."""
        outputs = math.prod(tile[d.name] for d in access.dims if d.kind == "parallel")
        reduced = {d.name for d in access.dims if d.kind == "reduction"}
        last = access.operand("x").axes[-1]
        cost_class = "rows" if isinstance(last, At) and last.dim in reduced else "columns"
        return Work(0, math.prod(tile.values()), outputs, cost_class, inner_loop_starts=outputs)


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


Along = dict[str, AttrValue]
"""The attributes of a reduction along the same axes."""


class ComposedReduction(Reducing):
    """A reduction without a kernel of its own."""

    def along(self, node: Node, x: TensorType) -> Along:
        """Attributes that reduce the node's axes of X, and none where it has none."""
        return {"axes": self.axes(node, x), "keepdims": node.attr_int("keepdims", 1), "noop_with_empty_axes": 1}

    def operand(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, tuple[int, ...], bool]:
        """X, the axes and whether they are kept, as numpy takes them."""
        x = arrays(inputs, 1)[0]
        return x, self.axes(node, TensorType("float32", x.shape)), bool(node.attr_int("keepdims", 1))


def constant_scalar(name: str, value: float) -> Node:
    """A constant of that name."""
    return Node(name, "Constant", (), (name,), {"value_float": value})


@register
class ReduceL1(ComposedReduction):
    """The sum of the magnitudes over some axes. ReduceSum of Abs."""

    name = "ReduceL1"
    numerics = Numerics(overflow="any")
    file = replace(ComposedReduction.file, versions=(1, 11, 13, 18))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's sum of magnitudes."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(np.abs(x).sum(axes, dtype=x.dtype, keepdims=keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The magnitudes, and their sum."""
        x, magnitudes = floats(node, inputs, 1)[0], f"{node.name}/magnitudes"
        return [
            Node(magnitudes, "Abs", node.inputs[:1], (magnitudes,)),
            Node(node.name, "ReduceSum", (magnitudes,), node.outputs, self.along(node, x)),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = sign(X) dY."""
        if b.needs_grad(0):
            sign = b.temp("sign")
            b.emit("Sign", (node.inputs[0],), (sign,))
            b.emit("Mul", (sign, self.column(node, douts[0], b)), (b.grad(0),))


SMALLEST = 2.0**-64
"""A norm below this is that in its gradient, so that X of zeros has zeros and nothing undefined, as in PyTorch."""


@register
class ReduceL2(ComposedReduction):
    """The root of the sum of the squares over some axes. The root of ReduceSumSquare."""

    name = "ReduceL2"
    file = replace(ComposedReduction.file, versions=(1, 11, 13, 18))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's root of the sum of squares."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(np.sqrt(np.square(x).sum(axes, dtype=x.dtype, keepdims=keep))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The root of the sum of squares."""
        x, total = floats(node, inputs, 1)[0], f"{node.name}/total"
        return [
            Node(total, "ReduceSumSquare", node.inputs[:1], (total,), self.along(node, x)),
            Node(node.name, "Sqrt", (total,), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = X dY / Y."""
        if b.needs_grad(0):
            above, slope = b.temp("above"), b.temp("slope")
            b.emit("Clip", (node.outputs[0], b.constant("least", np.array(SMALLEST, np.float32))), (above,))
            b.emit("Div", (douts[0], above), (slope,))
            b.emit("Mul", (node.inputs[0], self.column(node, slope, b)), (b.grad(0),))


@register
class ReduceLogSum(ComposedReduction):
    """The logarithm of the sum over some axes. Log of ReduceSum."""

    name = "ReduceLogSum"
    file = replace(ComposedReduction.file, versions=(1, 11, 13, 18, 28))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's logarithm of the sum."""
        x, axes, keep = self.operand(node, inputs)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (np.asarray(np.log(x.sum(axes, dtype=x.dtype, keepdims=keep))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sum, and its logarithm."""
        x, total = floats(node, inputs, 1)[0], f"{node.name}/total"
        return [
            Node(total, "ReduceSum", node.inputs[:1], (total,), self.along(node, x)),
            Node(node.name, "Log", (total,), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY / exp(Y), repeated along the axes."""
        if b.needs_grad(0):
            total, slope = b.temp("total"), b.temp("slope")
            b.emit("Exp", (node.outputs[0],), (total,))
            b.emit("Div", (douts[0], total), (slope,))
            expand_to(b, self.column(node, slope, b), b.type(node.inputs[0]).shape, b.grad(0))


@register
class ReduceLogSumExp(ComposedReduction):
    """The logarithm of the sum of exponentials over some axes.

    M + Log of ReduceSum of Exp of X - M, with M the maximum, so that nothing overflows; M is finite.
    """

    name = "ReduceLogSumExp"
    file = replace(ComposedReduction.file, versions=(1, 11, 13, 18, 28))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum, and the logarithm of the sum of exponentials relative to it."""
        x, axes, keep = self.operand(node, inputs)
        ends = np.finfo(x.dtype)
        most = np.clip(x.max(axes, keepdims=True), ends.min, ends.max)
        y = most + np.log(np.exp(x - most).sum(axes, dtype=x.dtype, keepdims=True))
        return (np.asarray(y if keep else y.squeeze(axes), dtype=x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The maximum as a finite number, what is left of X, its exponentials, their sum, its logarithm, their sum."""
        x = floats(node, inputs, 1)[0]
        extreme, most, shifted, powers, total, log, kept = (
            f"{node.name}/{label}" for label in ("extreme", "most", "shifted", "powers", "total", "log", "kept")
        )
        ends: dict[str, AttrValue] = {"min": float(np.finfo(np.float32).min), "max": float(np.finfo(np.float32).max)}
        along = {**self.along(node, x), "keepdims": 1}
        shape = self.infer(node, inputs)[0].shape
        return [
            Node(extreme, "ReduceMax", node.inputs[:1], (extreme,), along),
            Node(most, "Clip", (extreme,), (most,), ends),  # infinities leave nothing of infinities
            Node(shifted, "Sub", (node.inputs[0], most), (shifted,)),
            Node(powers, "Exp", (shifted,), (powers,)),
            Node(total, "ReduceSum", (powers,), (total,), along),
            Node(log, "Log", (total,), (log,)),
            Node(kept, "Add", (log, most), (kept,)),
            Node(node.name, "Reshape", (kept,), node.outputs, {"shape": shape}),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY exp(X - Y)."""
        if b.needs_grad(0):
            below, shares = b.temp("below"), b.temp("shares")
            b.emit("Sub", (node.inputs[0], self.column(node, node.outputs[0], b)), (below,))
            b.emit("Exp", (below,), (shares,))
            b.emit("Mul", (shares, self.column(node, douts[0], b)), (b.grad(0),))


@over_integers
class ReduceMax(Reduction):
    """The maximum over some axes. The result is NaN where one of its elements is."""

    name = "ReduceMax"
    file = replace(Reduction.file, versions=(1, 11, 12, 13, 18, 20))
    kernel: ClassVar[Kernel] = reduce_kernel("reduce_max_f32", sums=False)
    execution = None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's maximum."""
        x = arrays(inputs, 1)[0]
        axes = self.axes(node, TensorType("float32", x.shape))
        return (np.asarray(x.max(axes, keepdims=bool(node.attr_int("keepdims", 1)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Equal maxima share dY."""
        share_gradient(self, node, douts[0], b)


@register
class ReduceMean(Reduction):
    """The mean over some axes. The sum in row-major order over the number of elements."""

    name = "ReduceMean"
    file = replace(Reduction.file, versions=(1, 11, 13, 18))
    mean = True


@register
class ReduceMin(ComposedReduction):
    """The minimum over some axes.

    -ReduceMax(-X); for integers ~ReduceMax(~X), since the smallest integer has no negative.
    """

    name = "ReduceMin"
    file = replace(ComposedReduction.file, versions=(1, 11, 12, 13, 18, 20))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's minimum."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(x.min(axes, keepdims=keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceMax of -X, or of ~X for integers, flipped back."""
        x = operands(node, inputs, 1)[0]
        minus_one, flipped, maximum = (f"{node.name}/{label}" for label in ("minus", "turned", "most"))
        if x.dtype == "int32":
            return [
                Node(flipped, "BitwiseNot", node.inputs[:1], (flipped,)),
                Node(maximum, "ReduceMax", (flipped,), (maximum,), self.along(node, x)),
                Node(node.name, "BitwiseNot", (maximum,), node.outputs),
            ]
        return [
            constant_scalar(minus_one, -1.0),
            Node(flipped, "Mul", (node.inputs[0], minus_one), (flipped,)),
            Node(maximum, "ReduceMax", (flipped,), (maximum,), self.along(node, x)),
            Node(node.name, "Mul", (maximum, minus_one), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Equal minima share dY."""
        share_gradient(self, node, douts[0], b)


@register
class ReduceProd(Reduction):
    """The product over some axes. Products in row-major order."""

    name = "ReduceProd"
    numerics = Numerics(overflow="any")
    file = replace(Reduction.file, versions=(1, 11, 13, 18))
    kernel: ClassVar[Kernel] = reduce_kernel("reduce_prod_f32", sums=False)
    execution = None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's product."""
        x = arrays(inputs, 1)[0]
        axes = self.axes(node, TensorType("float32", x.shape))
        return (np.asarray(x.prod(axes, dtype=x.dtype, keepdims=bool(node.attr_int("keepdims", 1)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY times the product of all others, with X as rows of what is multiplied."""
        if not b.needs_grad(0):
            return
        x = b.type(node.inputs[0])
        axes = self.axes(node, x)
        kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
        order = (*kept, *axes)
        sizes = tuple(x.shape[axis] for axis in order)
        table = (b.type(douts[0]).size, x.size // b.type(douts[0]).size)
        rows, products, moved = b.temp("rows"), b.temp("products"), node.inputs[0]
        if order != tuple(range(len(order))):
            moved = b.temp("moved")
            b.emit("Transpose", node.inputs[:1], (moved,), perm=order)
        reshape_to(b, moved, table, rows)
        dy = b.temp("dy")
        reshape_to(b, douts[0], table[:1], dy)
        b.emit("ReduceProdGrad", (dy, rows), (products,))
        if moved == node.inputs[0]:
            reshape_to(b, products, x.shape, b.grad(0))
            return
        back = b.temp("back")
        reshape_to(b, products, sizes, back)
        b.emit("Transpose", (back,), (b.grad(0),), perm=tuple(order.index(axis) for axis in range(len(order))))


@register
class ReduceSum(Reduction):
    """The sum over some axes. Sums in row-major order."""

    name = "ReduceSum"
    numerics = Numerics(overflow="any")
    file = replace(Reduction.file, versions=(1, 11, 13), extras=(LATE_AXES,))


@register
class ReduceSumSquare(ComposedReduction):
    """The sum of the squares over some axes. ReduceSum of X X."""

    name = "ReduceSumSquare"
    numerics = Numerics(overflow="any")
    file = replace(ComposedReduction.file, versions=(1, 11, 13, 18))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's sum of squares."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(np.square(x).sum(axes, dtype=x.dtype, keepdims=keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The squares, and their sum."""
        x, squares = floats(node, inputs, 1)[0], f"{node.name}/squares"
        return [
            Node(squares, "Mul", (node.inputs[0], node.inputs[0]), (squares,)),
            Node(node.name, "ReduceSum", (squares,), node.outputs, self.along(node, x)),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = X 2 dY."""
        if b.needs_grad(0):
            twice = b.temp("twice")
            b.emit("Mul", (self.column(node, douts[0], b), b.constant("two", np.array(2, np.float32))), (twice,))
            b.emit("Mul", (node.inputs[0], twice), (b.grad(0),))
