"""Max, average, Lp and global pooling."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import Extra, Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import DecisionBoundaries, Numerics
from deployer.operators.base.epilogue import (
    GATE,
    GATE_POINTER,
    check_gate,
    finished,
    gate_args,
    gate_array,
    gate_class,
    gate_operands,
)
from deployer.operators.base.integer_variants import over_integers
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.views import reshape_to
from deployer.operators.pooling.windows import (
    FORWARD,
    SPATIAL,
    Pool,
    divisors,
    padded,
    pool_kernel,
    pooled,
    sides,
    stacked,
    taps,
    windows,
)
from deployer.operators.reduction.reduction import constant_scalar

GATE_INPUT = 1
"""The input that gates the result, if the node has it; only fusion sets it."""


def _unpadded(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 cannot say whether padding counts: ONNX's text excludes it, ONNX's reference evaluator counts it."""
    if any(node.attr_ints("pads", ())) or node.attr_str("auto_pad", "NOTSET") not in ("", "NOTSET", "VALID"):
        raise unsupported(node, "version 1 leaves open whether padding counts", "a Pad before it, or opset 7 and above")
    return [node]


@register
class AveragePool(Pool):
    """The mean of each window, over its elements inside X or over the whole window.

    X[N, C, ...] of one to three spatial axes; `count_include_pad` counts padding too.
    """

    name = "AveragePool"
    file = FileSpec(versions=(7, 10, 11, 19, 22), older={1: _unpadded}, flags=("ceil_mode", "count_include_pad"))
    kernel = pool_kernel("avg_pool_f32", ("x",), "y", *FORWARD, "include_pad")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along each spatial axis."""
        if node.attr_int("ceil_mode", 0) and node.attr_int("count_include_pad", 0):
            raise unsupported(node, "ceil_mode together with count_include_pad", "either of them")
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum over the window's positions, divided."""
        x = arrays(inputs, 1)[0]
        axes = sides(node, x.shape)
        y = stacked(padded(x, axes, 0.0), axes).sum(0, dtype=x.dtype) / divisors(node, axes).astype(x.dtype)
        shape = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        return (np.asarray(y, x.dtype).reshape(shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by its planes and its depth."""
        shape = operands(node, inputs, 1)[0].shape
        axes = windows(node, shape)
        return pooled(node, shape, axes) if len(axes) == SPATIAL else None

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY over the count, to each element of its window."""
        if b.needs_grad(0):
            attrs = {**node.attrs, "input_shape": b.type(node.inputs[0]).shape}
            b.emit("AveragePoolGrad", (douts[0],), (b.grad(0),), **attrs)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of Pool, and those that say which padding counts."""
        return super().args(node, access) | {"include_pad": Const(node.attr_int("count_include_pad", 0))}


def _decision_boundaries(node: Node, inputs: Sequence[Array | None]) -> tuple[DecisionBoundaries, ...]:
    """In each window the second largest element could have won, and the gradient gone to it."""
    x = arrays(inputs, 1)[0]
    axes = sides(node, x.shape)
    values = stacked(padded(np.where(np.isnan(x), -np.inf, x), axes, -np.inf), axes)
    places = stacked(padded(np.arange(x.size).reshape(x.shape), axes, -1), axes)
    if len(values) < 2:
        return ()
    order = np.argsort(-values, axis=0, kind="stable")[:2]
    (most, second), (winner, competitor) = (np.take_along_axis(a, order, 0).reshape(2, -1) for a in (values, places))
    real = np.isfinite(second)
    flipped = np.nextafter(most[real], np.inf)
    return (DecisionBoundaries(0, competitor[real], (most - second)[real], flipped, winner[real]),)


@over_integers
class MaxPool(Pool):
    """The maximum of each window; padding never wins.

    X[N, C, ...] of one to three spatial axes; the second output may be named but not read.
    """

    name = "MaxPool"
    file = FileSpec(versions=(1, 8, 10, 11, 12, 22), flags=("ceil_mode", "storage_order"))
    integers = True
    kernel = pool_kernel("max_pool_f32", ("x",), "y", *FORWARD)
    numerics = Numerics(decision_boundaries=_decision_boundaries)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y and the indices."""
        y = super().infer(node, inputs)[0]
        return (y, TensorType("int32", y.shape)) if len(node.outputs) > 1 else (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum of the numbers in each window; NaN is not a number here."""
        x = arrays(inputs, 1)[0]
        lowest = x.dtype.type(-np.inf) if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        axes = sides(node, x.shape)
        y = stacked(padded(np.where(np.isnan(x), lowest, x), axes, lowest), axes).max(0)
        return (y.reshape(self.infer(node, (TensorType("float32", x.shape),))[0].shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same node without the output of indices, which no kernel computes; a volume by its planes and depth."""
        shape = operands(node, inputs, 1)[0].shape
        axes = windows(node, shape)
        if len(axes) == SPATIAL:
            return pooled(node, shape, axes)
        if len(node.outputs) < 2:
            return None
        return [Node(node.name, self.name, node.inputs, node.outputs[:1], dict(node.attrs))]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY goes to the first maximum of its window."""
        if b.needs_grad(0):
            b.emit("MaxPoolGrad", (douts[0], node.inputs[0]), (b.grad(0),), **node.attrs)


P = 2


def _whole(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has a real p."""
    p = node.attr_float("p", P)
    if p != int(p):
        raise unsupported(node, f"p is {p}", "a whole p")
    return [Node(node.name, node.op, node.inputs, node.outputs, {**node.attrs, "p": int(p)})]


def order_of(node: Node) -> int:
    """The p of the norm; UnsupportedOperator below 1."""
    p = node.attr_int("p", P)
    if p < 1:
        raise unsupported(node, f"p is {p}", "a p of 1 and above")
    return p


def powers(node: Node, x: str, p: int) -> tuple[list[Node], str]:
    """Nodes of the p-th power of the magnitude of each element, and their result."""
    power, size = f"{node.name}/power", f"{node.name}/size"
    if p == 2:
        return [Node(power, "Mul", (x, x), (power,))], power
    nodes = [Node(size, "Abs", (x,), (size,))]
    if p == 1:
        return nodes, size
    exponent = f"{node.name}/exponent"
    return [*nodes, constant_scalar(exponent, float(p)), Node(power, "Pow", (size, exponent), (power,))], power


def root(node: Node, total: str, p: int) -> list[Node]:
    """Nodes that give the node's output as the p-th root of what is summed."""
    if p == 1:
        return [Node(node.name, "Identity", (total,), node.outputs)]
    if p == 2:
        return [Node(node.name, "Sqrt", (total,), node.outputs)]
    inverse = f"{node.name}/inverse"
    return [constant_scalar(inverse, 1 / p), Node(node.name, "Pow", (total, inverse), node.outputs)]


@register
class LpPool(Operator):
    """The p-norm of each window. Made of AveragePool over powers, times the elements of a window; padding is zero."""

    name = "LpPool"
    file = FileSpec(versions=(2, 11, 18, 22), older={1: _whole}, flags=("ceil_mode",))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along each spatial axis."""
        x = floats(node, inputs, 1)[0]
        order_of(node)
        if node.attr_int("ceil_mode", 0):
            raise unsupported(node, "ceil_mode is 1", "ceil_mode 0")
        return (TensorType(x.dtype, (*x.shape[:2], *(axis.count for axis in windows(node, x.shape)))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The root of the sum of powers over the window's positions, one position after the other."""
        x, p = arrays(inputs, 1)[0], order_of(node)
        axes = sides(node, x.shape)
        powered = padded(np.abs(x) ** p, axes, 0.0)
        total = sum((powered[tap] for tap in taps(axes)), start=x.dtype.type(0))
        shape = (*x.shape[:2], *(axis.count for axis in windows(node, x.shape)))
        return (np.asarray(total ** (1 / p), x.dtype).reshape(shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Powers, their mean, the sum, the root."""
        p = order_of(node)
        elements = np.prod([axis.kernel for axis in windows(node, floats(node, inputs, 1)[0].shape)])
        first, powered = powers(node, node.inputs[0], p)
        mean, count, total = (f"{node.name}/{label}" for label in ("mean", "count", "total"))
        attrs: dict[str, AttrValue] = {k: v for k, v in node.attrs.items() if k not in ("p", "ceil_mode")}
        return [
            *first,
            Node(mean, "AveragePool", (powered,), (mean,), {**attrs, "count_include_pad": 1}),
            constant_scalar(count, float(elements)),
            Node(total, "Mul", (mean, count), (total,)),
            *root(node, total, p),
        ]


@register
class GlobalAveragePool(Operator):
    """The mean over all spatial axes of X[N, C, ...]. Lowered to ReduceMean."""

    name = "GlobalAveragePool"
    file = FileSpec(versions=(1, 22))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with spatial axes of one element."""
        x = operands(node, inputs, 1)[0]
        if len(x.shape) < 3:
            raise mismatch(node, "X has no spatial axis", inputs)
        return (TensorType(x.dtype, x.shape[:2] + (1,) * (len(x.shape) - 2)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's mean."""
        x = arrays(inputs, 1)[0]
        return (x.mean(tuple(range(2, x.ndim)), dtype=x.dtype, keepdims=True),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceMean over the spatial axes."""
        rank = len(operands(node, inputs, 1)[0].shape)
        attrs: dict[str, AttrValue] = {"axes": tuple(range(2, rank)), "keepdims": 1}
        return [Node(node.name, "ReduceMean", node.inputs[:1], node.outputs, attrs)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY over the number of elements, repeated."""
        if b.needs_grad(0):
            spatial = b.type(node.inputs[0]).shape[2:]
            b.emit("GlobalAveragePoolGrad", (douts[0],), (b.grad(0),), kernel_shape=spatial)


@register
class GlobalAveragePoolGrad(Operator):
    """dX = dY / (H W), repeated over the spatial axes.

    `kernel_shape` gives the spatial shape of X, or `input_shape` the whole of it.

    Fusion sets a second input where the gradient of a Relu follows: its Y.
    """

    name = "GlobalAveragePoolGrad"
    file = FileSpec(
        custom=Signature((1, 1), (1, 1), {"input_shape": "INTS"}),
        extras=(Extra("kernel_shape", ("INTS",), "says the spatial shape of X, which dY leaves open"),),
        domain="",
    )
    no_gradient = "it is itself a gradient"
    kernel = Kernel(
        "global_pool_grad_f32",
        pointers=(("dy", "float32", False), GATE_POINTER, ("dx", "float32", True)),
        scalars=(("c", "u32"), ("s", "u32"), ("dx_c", "u32"), ("gate_c", "u32"), ("count", "f32")),
    )
    fusion = Fusion(epilogue_operands={GATE: GATE_INPUT})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        dy = operands(node, inputs, 1)[0]
        input_shape = node.attr_ints("input_shape", ()) if "input_shape" in node.attrs else ()
        if not input_shape and "kernel_shape" not in node.attrs:
            raise unsupported(node, "the spatial shape of X is unknown", "attribute kernel_shape or input_shape")
        shape = input_shape or dy.shape[:2] + node.attr_ints("kernel_shape", ())
        if len(shape) < 3 or dy.shape != shape[:2] + (1,) * (len(shape) - 2) or min(shape) < 1:
            raise mismatch(node, f"dY does not belong to X of shape {shape}", inputs)
        x = TensorType(dy.dtype, shape)
        check_gate(node, inputs, GATE_INPUT, x)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY over the number of elements."""
        dy = arrays(inputs, 1)[0]
        shape = self.infer(node, (TensorType("float32", dy.shape),))[0].shape
        dx = np.broadcast_to(dy / dy.dtype.type(math.prod(shape[2:])), shape).copy()
        return (finished(node, dx, gate_array(inputs, GATE_INPUT)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims c over images and channels, s over the spatial axes."""
        shape = types[node.outputs[0]].shape
        c, s = math.prod(shape[:2]), math.prod(shape[2:])
        dy = Operand("dy", node.inputs[0], "in", (c,), (At("c"),))
        dx = Operand("dx", node.outputs[0], "out", (c, s), (At("c"), At("s")))
        return Access((Dim("c", c), Dim("s", s)), (dy, *gate_operands(node, GATE_INPUT, dx), dx))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, and the number of elements that share a gradient."""
        count = Const(float(access.dim("s").size))
        return {
            "c": Extent("c"),
            "s": Extent("s"),
            "dx_c": Stride("dx", 0),
            **gate_args(access, {"c": 0}),
            "count": count,
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An element per output, which count as multiply-accumulates, and a division per channel."""
        count = tile["c"] * tile["s"]
        return Work(macs=count, elements=tile["c"], parallel=count, cost_class=gate_class(access))


@register
class GlobalMaxPool(Operator):
    """The maximum over all spatial axes of X[N, C, ...].

    Lowered to ReduceMax; its gradient is that of a MaxPool with one window.
    """

    name = "GlobalMaxPool"
    file = FileSpec(versions=(1, 22))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with spatial axes of one element."""
        x = floats(node, inputs, 1)[0]
        if len(x.shape) <= 2:
            raise mismatch(node, "X has no spatial axis", inputs)
        return (TensorType(x.dtype, x.shape[:2] + (1,) * (len(x.shape) - 2)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's maximum."""
        x = arrays(inputs, 1)[0]
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceMax over the spatial axes."""
        rank = len(floats(node, inputs, 1)[0].shape)
        attrs: dict[str, AttrValue] = {"axes": tuple(range(2, rank)), "keepdims": 1}
        return [Node(node.name, "ReduceMax", node.inputs[:1], node.outputs, attrs)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY goes to the first maximum, as in PyTorch; the spatial axes are one for that."""
        if b.needs_grad(0):
            shape = b.type(node.inputs[0]).shape
            size = math.prod(shape[2:])
            dy, line, dx = (b.temp(label) for label in ("dy", "line", "dx"))
            reshape_to(b, douts[0], (*shape[:2], 1), dy)
            reshape_to(b, node.inputs[0], (*shape[:2], size), line)
            b.emit("MaxPoolGrad", (dy, line), (dx,), kernel_shape=(size,))
            reshape_to(b, dx, shape, b.grad(0))
