"""Softmax, its logarithm and their gradients along one axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion, Preparation
from deployer.operators.base.operands import Construction, arrays, floats
from deployer.operators.base.sums import LONGEST_ROW
from deployer.operators.base.views import normalized_axes
from deployer.operators.loss.label_loss import log_softmax


@register
class LogSoftmaxGrad(Operator):
    """ONNX Runtime's, of dY and Y along `axis`, default the last."""

    name = "LogSoftmaxGrad_13"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {"axis": "INT"}))
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of Y."""
        dy, y = floats(node, inputs, 2)
        normalized_axes(node, (node.attr_int("axis", -1),), len(y.shape), inputs)
        if dy != y:
            raise mismatch(node, "dY and Y differ in shape", inputs)
        return (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY - exp(Y) sum(dY)."""
        dy, y = arrays(inputs, 2)
        return (np.asarray(dy - np.exp(y) * dy.sum(node.attr_int("axis", -1), dtype=y.dtype, keepdims=True)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceSum, Exp, Mul and Sub."""
        graph, (dy, y) = Construction(node.name), node.inputs
        total = graph.emit("ReduceSum", (dy,), axes=(node.attr_int("axis", -1),), keepdims=1)
        share = graph.emit("Mul", (graph.emit("Exp", (y,)), total))
        graph.emit("Sub", (dy, share), node.outputs[0])
        return graph.nodes


class RowOperator(Operator):
    """An operator whose operands all have the shape of the first; attribute `axis`, default the last."""

    kernel: ClassVar[Kernel]
    phases: ClassVar[tuple[tuple[str, ...], ...]]
    """For long rows: an operator, its inputs and its output each, by the kernel's names of operands and by others;
    reductions are along the axis."""
    flops: ClassVar[int] = 0
    """Operations per element."""
    transcendentals: ClassVar[int] = 1
    """Calls of expf or logf per element besides."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the first input, which all others must have."""
        types = floats(node, inputs, len(self.kernel.pointers) - 1)
        axis = node.attr_int("axis", -1)
        if not -len(types[0].shape) <= axis < len(types[0].shape):
            raise mismatch(node, f"axis {axis} outside rank {len(types[0].shape)}", inputs)
        if any(t != types[0] for t in types):
            raise mismatch(node, "operands differ in type", inputs)
        return (types[0],)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Lower to the nodes of `phases` if a row is too long for a tile."""
        shape = floats(node, inputs, 1)[0].shape
        axis = node.attr_int("axis", -1) % len(shape)
        if shape[axis] <= LONGEST_ROW:
            return None
        attributes: dict[str, AttrValue] = {"axes": (axis,), "keepdims": 1}
        nodes = []
        for op, *operands, result in self.phases:
            tensors = {name: f"{node.name}/{name}" for name in (*operands, result)}
            tensors |= dict(zip(self._arguments(), (*node.inputs, node.outputs[0]), strict=True))
            arguments, attrs = tuple(tensors[x] for x in operands), attributes if op.startswith("Reduce") else {}
            nodes.append(Node(f"{node.name}/{result}", op, arguments, (tensors[result],), dict(attrs)))
        return nodes

    def _arguments(self) -> list[str]:
        return [name for name, _, _ in self.kernel.pointers]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Operands as [outer, classes, inner]; the class axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        axis = node.attr_int("axis", -1) % len(shape)
        view = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        axes = (At("outer"), Whole(), At("inner"))
        tensors = (*node.inputs, node.outputs[0])
        listed = tuple(
            Operand(arg, tensor, "out" if is_output else "in", view, axes)
            for (arg, _, is_output), tensor in zip(self.kernel.pointers, tensors, strict=True)
        )
        return Access((Dim("outer", view[0]), Dim("inner", view[2])), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides = {f"{o.arg}_{label}": Stride(o.arg, i) for o in access.operands for i, label in enumerate("oc")}
        classes = Const(access.operands[0].view[1])
        return {"outer": Extent("outer"), "classes": classes, "inner": Extent("inner"), **strides}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """`flops` and `transcendentals` per element, and as many again per row, which begins a loop."""
        rows = tile["outer"] * tile["inner"]
        classes = access.operands[0].view[1]
        each = self.flops + self.transcendentals * model.transcendental_elements
        return Work(macs=0, elements=rows * (classes + 1) * each, parallel=rows, inner_loop_starts=rows)


def coerced(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Softmax and its logarithm before version 13: over all axes from `axis`, by default 1, as if they were one."""
    shape, axis = floats(node, types, 1)[0].shape, node.attr_int("axis", 1)
    if not -len(shape) <= axis < len(shape):
        raise mismatch(node, f"axis {axis} outside rank {len(shape)}", types)
    axis %= len(shape)
    if math.prod(shape[axis + 1 :]) == 1:
        explicit = "axis" in node.attrs or axis == len(shape) - 1
        return [node if explicit else replace(node, attrs={"axis": axis})]
    rows, result = f"{node.name}/rows", f"{node.name}/result"
    return [
        Node(rows, "Flatten", node.inputs, (rows,), {"axis": axis}),
        Node(node.name, node.op, (rows,), (result,), {"axis": 1}),
        Node(result, "Reshape", (result,), node.outputs, {"shape": shape}),
    ]


POWERS = (
    ("ReduceMax", "x", "max"),
    ("Sub", "x", "max", "shifted"),
    ("Exp", "shifted", "powers"),
    ("ReduceSum", "powers", "sum"),
)
"""The first phases of softmax and its logarithm."""


def row_kernel(symbol: str, inputs: Sequence[str], output: str, *numbers: str) -> Kernel:
    """The kernel of a RowOperator; `_o` and `_c` are each operand's strides along the outer and the class axis, and
    `numbers` what it takes besides.
    """
    pointers = (*((name, "float32", False) for name in inputs), (output, "float32", True))
    strides = (f"{name}_{axis}" for name in (*inputs, output) for axis in "oc")
    lengths: list[tuple[str, CType]] = [(name, "u32") for name in ("outer", "classes", "inner", *strides)]
    return Kernel(symbol, pointers, (*lengths, *((name, "f32") for name in numbers)))


@register
class LogSoftmax(RowOperator):
    """x - max - log(sum(exp(x - max))) along one axis. X along `axis`, default the last."""

    name = "LogSoftmax"
    file = FileSpec(versions=(13,), older={1: coerced, 11: coerced})
    kernel = row_kernel("log_softmax_f32", ("x",), "y")
    phases = (*POWERS, ("Log", "sum", "log_sum"), ("Sub", "shifted", "log_sum", "y"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """x - max - log(sum(exp(x - max)))."""
        x = arrays(inputs, 1)[0]
        return (log_softmax(x, node.attr_int("axis", -1)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY - exp(Y) sum(dY), with the sum along the axis."""
        if b.needs_grad(0):
            axes = b.constant("axes", np.array([node.attr_int("axis", -1)], np.int64))
            total, shares, product = (b.temp(label) for label in ("total", "shares", "part"))
            b.emit("ReduceSum", (douts[0], axes), (total,), keepdims=1)
            b.emit("Exp", (node.outputs[0],), (shares,))
            b.emit("Mul", (shares, total), (product,))
            b.emit("Sub", (douts[0], product), (b.grad(0),))


@register
class Softmax(RowOperator):
    """exp(x - max) / sum(exp(x - max)) along one axis. X along `axis`, default the last."""

    name = "Softmax"
    file = FileSpec(versions=(13,), older={1: coerced, 11: coerced})
    kernel = row_kernel("softmax_f32", ("x",), "y")
    phases = (*POWERS, ("Div", "powers", "sum", "y"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """exp(x - max) / sum(exp(x - max))."""
        x, axis = arrays(inputs, 1)[0], node.attr_int("axis", -1)
        return (softmax(x, axis),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """SoftmaxGrad of Y."""
        if b.needs_grad(0):
            axis = node.attr_int("axis", -1)
            b.emit("SoftmaxGrad", (douts[0], node.outputs[0]), (b.grad(0),), axis=axis)


def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) over their sum."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True, dtype=x.dtype))


MASK = 1
Shape = tuple[int, ...]


@register
class MaskedSoftmax(Operator):
    """The softmax along the last axis of alpha X plus a mask, which attention makes of its scores.

    X, and a mask that broadcasts to it along its first axes or along those behind, but the last; either is absent.

    `alpha` multiplies X, which is rounded before the mask is added: the bits are those of three steps. Where `causal`
    is set, row i of the last but one axis has the softmax of its classes up to i, and zeros behind them. Where `safe`
    is set, a row of which all scores are minus infinity becomes zeros, not NaN.
    """

    name = "MaskedSoftmax"
    kernel = Kernel(
        "masked_softmax_f32",
        pointers=(("x", "float32", False), ("mask", "float32", False), ("y", "float32", True)),
        scalars=(
            *((name, "u32") for name in ("outer", "inner", "classes", "x_o", "x_i", "mask_o", "mask_i", "y_o", "y_i")),
            *((name, "u32") for name in ("seen", "safe")),
            ("alpha", "f32"),
        ),
    )
    fusion = Fusion(prologue=Preparation(Softmax.name, factor="alpha", epilogue_bias=MASK))
    no_gradient = "softmax has it, for which this stands later"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, whose last axis is that of the softmax and to which the mask broadcasts."""
        x = floats(node, inputs, 1)[0]
        rank = len(x.shape)
        if node.attr_int("axis", -1) not in (-1, rank - 1) or not rank:
            raise unsupported(node, "its axis is not the last", "the last axis")
        if node.attr_int("causal", 0) and rank < 2:
            raise mismatch(node, "a causal softmax of one axis", inputs)
        mask = inputs[MASK] if len(inputs) > MASK else None
        if mask is not None and (mask.dtype != "float32" or not _broadcasts(mask.shape, x.shape)):
            raise mismatch(node, f"the mask {mask} does not broadcast to X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """exp(s - max s) / sum(exp(s - max s)) of s = alpha X + mask."""
        x, mask = (*inputs, None)[:2]
        assert x is not None
        scores = x * x.dtype.type(node.attr_float("alpha", 1.0))
        scores = scores if mask is None else scores + mask
        if node.attr_int("causal", 0):
            scores = np.where(lower_triangle(x.shape), scores, x.dtype.type(-np.inf))
        return (safe_softmax(scores) if node.attr_int("safe", 0) else softmax(scores, -1),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """X as [outer, inner, classes]: the mask is one for all of outer, or for all of inner, or for all rows."""
        shape = types[node.inputs[0]].shape
        name = node.inputs[MASK] if len(node.inputs) > MASK else ""
        mask = (1,) * (len(shape) - len(types[name].shape)) + types[name].shape if name else shape
        if mask[-1] != shape[-1]:
            raise unsupported(node, f"the mask {mask} is one for all classes", "a mask with a number for each class")
        split = len(shape) - 2 if node.attr_int("causal", 0) else None
        outer, inner, repeats = _rows(node, mask[:-1], shape[:-1], split)
        view = (outer, inner, shape[-1])
        rows: tuple[Axis, ...] = (At("outer"), At("inner"), Whole())
        listed = [Operand("x", node.inputs[0], "in", view, rows)]
        if name:
            axes = (*(Broadcast() if r else axis for r, axis in zip(repeats, rows[:2], strict=True)), Whole())
            sizes = tuple(1 if r else size for r, size in zip(repeats, view[:2], strict=True))
            listed.append(Operand("mask", name, "in", (*sizes, shape[-1]), axes))
        listed.append(Operand("y", node.outputs[0], "out", view, rows))
        return Access((Dim("outer", outer), Dim("inner", inner)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides (zero of an absent mask), and the factor."""
        strides: dict[str, ArgValue] = {"mask_o": Const(0), "mask_i": Const(0)}
        strides |= {f"{o.arg}_{label}": Stride(o.arg, i) for o in access.operands for i, label in enumerate("oi")}
        lengths: dict[str, ArgValue] = {"outer": Extent("outer"), "inner": Extent("inner")}
        classes = Const(access.operand("x").view[-1])
        seen: ArgValue = Start("inner") if node.attr_int("causal", 0) else classes
        numbers = {"seen": seen, "safe": Const(node.attr_int("safe", 0)), "alpha": Const(node.attr_float("alpha", 1.0))}
        return {**lengths, "classes": classes, **strides, **numbers}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Return the work of a softmax plus two operations per element, of half of them in causal rows."""
        rows, classes = tile["outer"] * tile["inner"], access.operand("x").view[-1]
        if node.attr_int("causal", 0):
            classes = mean_seen(access.operand("x").view[-2], classes)
        return Work(
            macs=0,
            elements=rows * (classes + 1) * (model.transcendental_elements + 2),
            parallel=rows,
            inner_loop_starts=rows,
        )


def lower_triangle(shape: Shape) -> npt.NDArray[np.bool_]:
    """True where the last index is at most the one before."""
    return np.tri(*shape[-2:], dtype=np.int8) > 0


def mean_seen(rows: int, classes: int) -> int:
    """Return the mean number of classes of causal rows, rounded up."""
    total = sum(min(i + 1, classes) for i in range(rows))
    return -(-total // rows)


def safe_softmax(scores: Array) -> Array:
    """The softmax along the last axis, zero in rows that are minus infinity."""
    hidden = np.isneginf(scores).all(-1, keepdims=True)
    zero = scores.dtype.type(0)
    return np.where(hidden, zero, softmax(np.where(hidden, zero, scores), -1))


def _broadcasts(mask: Shape, shape: Shape) -> bool:
    try:
        return np.broadcast_shapes(mask, shape) == shape
    except ValueError:
        return False


def _rows(node: Node, mask: Shape, rows: Shape, at: int | None = None) -> tuple[int, int, tuple[bool, bool]]:
    """Split the axes of the rows in two, before the axis `at` if it is given, and return along which of both the mask
    repeats.

    Raise UnsupportedOperator if it repeats along others.
    """
    for split in range(len(rows) + 1) if at is None else (at,):
        halves = [(mask[:split], rows[:split]), (mask[split:], rows[split:])]
        sizes = [(math.prod(m), math.prod(r)) for m, r in halves]
        if all(m in (1, r) for m, r in sizes):
            (m0, outer), (m1, inner) = sizes
            return outer, inner, (m0 != outer, m1 != inner)
    raise unsupported(
        node, f"the mask repeats along rows {rows} as {mask}", "a mask along the first or the last of them"
    )


@register
class SoftmaxGrad(RowOperator):
    """dX = alpha Y (dY - sum(dY Y)) along one axis; Y is the output of Softmax.

    dY and Y along `axis`, default the last; `alpha` is there where a product with a number follows, as of scores.
    """

    name = "SoftmaxGrad"
    file = FileSpec(aliases=("SoftmaxGrad_13",), custom=Signature((2, 2), (1, 1), {"axis": "INT"}))
    kernel = row_kernel("softmax_grad_f32", ("dy", "y"), "dx", "alpha")
    fusion = Fusion(epilogue_scale="alpha")
    phases = (
        ("Mul", "dy", "y", "products"),
        ("ReduceSum", "products", "dot"),
        ("Sub", "dy", "dot", "centred"),
        ("Mul", "y", "centred", "dx"),
    )
    no_gradient = "it belongs to a backward pass"
    flops = 4
    transcendentals = 0

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """alpha Y (dY - sum(dY Y))."""
        dy, y = arrays(inputs, 2)
        dot = (dy * y).sum(node.attr_int("axis", -1), keepdims=True, dtype=y.dtype)
        return (np.asarray(y * (dy - dot) * y.dtype.type(node.attr_float("alpha", 1.0))),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides and the factor."""
        return {**super().args(node, access), "alpha": Const(node.attr_float("alpha", 1.0))}
