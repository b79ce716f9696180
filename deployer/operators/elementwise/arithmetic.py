"""Arithmetic with numpy broadcasting: sums, products, quotients, powers, extremes, and Exp and Log."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.access import Access
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import CONSUMED, Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import Numerics
from deployer.core.traits.training import FLOAT32_MAX
from deployer.expressions.formula import maximum, minimum
from deployer.operators.base.elementwise import (
    LOOPS,
    Binary,
    Flat,
    binary_kernel,
    equal_shapes,
    limited,
    loop_scalars,
)
from deployer.operators.base.elementwise_dsl import A, B, Chained, elementwise
from deployer.operators.base.epilogue import (
    GATE,
    GATE_POINTER,
    RELU_SCALAR,
    check_gate,
    extra_work,
    finished,
    gate_array,
    gate_operands,
    relu_args,
    through,
)
from deployer.operators.base.operands import arrays, floats, operands

GATE_INPUT = 2
"""The input that gates the result, if the node has it; only fusion sets it."""


_UNGATED = binary_kernel("add_f32")


@register
class Add(Binary):
    """Y = A + B with numpy broadcasting.

    Elementwise sum.

    Fusion sets attribute `activation` where Relu follows, and a third input where the gradient of a Relu does: its Y.
    """

    name = "Add"
    numerics = Numerics(overflow="any")
    at_run_time = "IntegerAdd"
    file = FileSpec(versions=(7, 13, 14), older={1: limited, 6: limited})
    kernel = Kernel(
        _UNGATED.symbol,
        pointers=(*_UNGATED.pointers[:2], GATE_POINTER, *_UNGATED.pointers[2:]),
        scalars=(*loop_scalars(("a", "b", "y", GATE)), RELU_SCALAR),
    )
    fusion = Fusion(epilogue_operands={GATE: GATE_INPUT}, is_sum=True, signs=(1, 1))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of two operands of one dtype."""
        (y,) = super().infer(node, inputs)
        check_gate(node, inputs, GATE_INPUT, y)
        return (y,)

    def apply(self, a: Array, b: Array) -> Array:
        """A + B."""
        return a + b

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A + B, then the fused Relu or gate."""
        (y,) = super().reference(node, inputs)
        return (finished(node, y, gate_array(inputs, GATE_INPUT)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY for both, summed over the axes each was broadcast along."""
        dy = through(node, douts[0], b, GATE_INPUT)
        for index in (0, 1):
            if b.needs_grad(index):
                b.reduce_to(dy, b.type(node.inputs[index]).shape, b.grad(index))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The access of two operands; a gate, where there is one, is read at the elements that Y is written at."""
        ungated = super().access(node, types)
        *inputs, y = ungated.operands
        return replace(ungated, operands=(*inputs, *gate_operands(node, GATE_INPUT, y), y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths and strides of the loops, strides of the gate (zero without one), and whether Relu follows."""
        absent: dict[str, ArgValue] = {f"{GATE}{i}": Const(0) for i in range(LOOPS)}
        return absent | super().args(node, access) | relu_args(node)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per output element, and one for each that is fused."""
        ungated = super().work(node, access, tile, model)
        return replace(ungated, elements=ungated.elements * (1 + extra_work(node, access)))


def _div_multiple(numbers: Mapping[int, float]) -> tuple[int, float] | None:
    """The dividend times the reciprocal of a power of two, which is a float32; other reciprocals are rounded."""
    divisor = numbers.get(1, math.nan)
    if abs(math.frexp(divisor)[0]) != 0.5 or abs(1 / divisor) > FLOAT32_MAX:
        return None
    return 0, 1 / divisor


@register
class Div(Binary):
    """Y = A / B with numpy broadcasting. Elementwise quotient; integers divide towards zero."""

    name = "Div"
    numerics = Numerics(overflow="any")
    at_run_time = "IntegerDiv"
    file = FileSpec(versions=(7, 13, 14), older={1: limited, 6: limited})
    kernel = binary_kernel("div_f32")
    fusion = Fusion(multiple=_div_multiple)

    def apply(self, a: Array, b: Array) -> Array:
        """A / B; of integers rounded towards zero: the floor, plus one where a quotient is negative and not exact."""
        if a.dtype.kind == "f":
            with np.errstate(all="ignore"):
                return a / b
        floor = a // b
        return np.asarray(floor + ((floor * b != a) & ((a < 0) != (b < 0))))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A / B; UnsupportedOperator where integers have no quotient."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind != "f" and ((b == 0) | ((b == -1) & (a == np.iinfo(a.dtype).min))).any():
            raise unsupported(node, "an integer is divided by zero, or overflows", "other constants, or floats")
        return super().reference(node, inputs)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY / B, dB = -dY Y / B, summed over the axes each was broadcast along."""
        dividend, divisor = node.inputs
        if b.needs_grad(0):
            quotient = b.temp("quotient")
            b.emit("Div", (douts[0], divisor), (quotient,))
            b.reduce_to(quotient, b.type(dividend).shape, b.grad(0))
        if b.needs_grad(1):
            product, quotient, negative = b.temp("product"), b.temp("quotient"), b.temp("negative")
            b.emit("Mul", (douts[0], node.outputs[0]), (product,))
            b.emit("Div", (product, divisor), (quotient,))
            b.emit("Mul", (quotient, b.constant("minus_one", np.array(-1, np.float32))), (negative,))
            b.reduce_to(negative, b.type(divisor).shape, b.grad(1))


@register
class EqualMask(Binary):
    """Y = 1 where A equals B, else 0, with numpy broadcasting.

    A step of gradients: which elements are the extremum. The operator of ONNX gives no floats.
    """

    name = "EqualMask"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    kernel = binary_kernel("equal_mask_f32")
    no_gradient = "it belongs to a backward pass"

    def apply(self, a: Array, b: Array) -> Array:
        """1 where A equals B."""
        return np.asarray(a == b, a.dtype)


@register
class Exp(Flat):
    """Y = e^X. Elementwise."""

    name = "Exp"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    kernel = Kernel("exp_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's."""
        with np.errstate(over="ignore"):
            return (np.exp(arrays(inputs, 1)[0]),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY Y."""
        if b.needs_grad(0):
            b.emit("Mul", (douts[0], node.outputs[0]), (b.grad(0),))

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An exponential per element."""
        return Work(macs=0, elements=tile["n"] * model.transcendental_elements, parallel=tile["n"])


@register
class Log(Flat):
    """Y = ln X. Elementwise."""

    name = "Log"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    kernel = Kernel("log_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.log(arrays(inputs, 1)[0]),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY / X."""
        if b.needs_grad(0):
            b.emit("Div", (douts[0], node.inputs[0]), (b.grad(0),))

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A logarithm per element."""
        return Work(macs=0, elements=tile["n"] * model.transcendental_elements, parallel=tile["n"])


@elementwise
class Max(Chained):
    """The largest of any number of operands; NaN where one is.

    Elementwise, from left to right; of two that are equal each gets half of the gradient, as PyTorch's maximum.
    """

    name = "Max"
    file = FileSpec(versions=(8, 12, 13), older={1: equal_shapes, 6: equal_shapes})
    operands = (A, B)
    formula = maximum(A, B)
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerMax"


@elementwise
class Min(Chained):
    """The smallest of any number of operands; NaN where one is.

    Elementwise, from left to right; of two that are equal each gets half of the gradient, as PyTorch's minimum.
    """

    name = "Min"
    file = FileSpec(versions=(8, 12, 13), older={1: equal_shapes, 6: equal_shapes})
    operands = (A, B)
    formula = minimum(A, B)
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerMin"


def _mul_multiple(numbers: Mapping[int, float]) -> tuple[int, float] | None:
    """A number times the other input."""
    return next(((1 - position, number) for position, number in numbers.items()), None)


@register
class Mul(Binary):
    """Y = A * B with numpy broadcasting. Elementwise product."""

    name = "Mul"
    numerics = Numerics(overflow="any")
    at_run_time = "IntegerMul"
    file = FileSpec(versions=(7, 13, 14), older={1: limited, 6: limited})
    kernel = binary_kernel("mul_f32")
    fusion = Fusion(multiple=_mul_multiple, is_product=True)

    def apply(self, a: Array, b: Array) -> Array:
        """A * B."""
        return a * b

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY B, dB = dY A, summed over the axes each was broadcast along."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            shape, factors = b.type(node.inputs[index]).shape, (douts[0], node.inputs[1 - index])
            if shape == b.type(node.outputs[0]).shape:
                b.emit("Mul", factors, (b.grad(index),))
                continue
            product = b.temp("product")
            b.emit("Mul", factors, (product,))
            b.reduce_to(product, shape, b.grad(index))


ROOT = 0.5
"""The exponent by which -0 becomes 0 and minus infinity infinity; the root of these is -0 and NaN."""


@register
class Pow(Binary):
    """Y = A ^ B with numpy broadcasting.

    Elementwise power; a negative base has integer exponents, else the result is NaN.
    """

    name = "Pow"
    numerics = Numerics(overflow="any")
    at_run_time = "IntegerPow"
    file = FileSpec(versions=(7, 12, 13, 15), older={1: limited})
    kernel = binary_kernel("pow_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A ^ B as in C's Annex F; numpy takes the root for an exponent of 0.5 that all share, -0 and NaN included."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((b == ROOT) & np.isin(a, (0.0, -math.inf)), np.abs(a), np.power(a, b))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape, of A's type; a float's exponent may be an integer."""
        a, b = operands(node, inputs, 2)
        return super().infer(node, (a, TensorType(a.dtype, b.shape) if a.dtype == "float32" else b))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """An integer exponent of a float becomes a float first."""
        a, b = operands(node, inputs, 2)
        if (a.dtype, b.dtype) != ("float32", "int32"):
            return super().lower(node, inputs)
        exponent = f"{node.name}/exponent"
        return [
            Node(exponent, "Cast", node.inputs[1:], (exponent,), {"to": TensorProto.FLOAT}),
            replace(node, inputs=(node.inputs[0], exponent)),
        ]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A ^ B; UnsupportedOperator for integers with negative exponents, whose powers are not integers."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind == "f":
            inputs = (a, b.astype(a.dtype))
        if a.dtype.kind != "f" and (b < 0).any():
            raise unsupported(node, "an integer has a negative exponent", "float operands")
        return super().reference(node, inputs)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY B A^(B - 1), summed over the axes A was broadcast along."""
        base, exponent = node.inputs
        if b.needs_grad(1):
            raise NotDifferentiable(f"node {node.name!r} (Pow) has no gradient with respect to the exponent")
        if b.needs_grad(0):
            if b.type(exponent).dtype != "float32":
                exponent = b.temp("exponent")
                b.emit("Cast", node.inputs[1:], (exponent,), to=TensorProto.FLOAT)
            reduced_exponent, power, slope, product = (b.temp(label) for label in ("less", "power", "slope", "product"))
            b.emit("Sub", (exponent, b.constant("one", np.array(1, np.float32))), (reduced_exponent,))
            b.emit("Pow", (base, reduced_exponent), (power,))
            b.emit("Mul", (power, exponent), (slope,))
            b.emit("Mul", (douts[0], slope), (product,))
            b.reduce_to(product, b.type(base).shape, b.grad(0))

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A logarithm and an exponential per output element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * 2 * model.transcendental_elements, parallel=count)


@register
class Scale(Operator):
    """Y = X * scale, or X / scale under `scale_down`.

    ONNX Runtime's operator: scale is a tensor of one element, attribute `scale_down` is 0 or 1.

    The scale may be an integer known at compile time, as where it is a quotient of sizes.
    """

    name = "Scale"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {"scale_down": "INT"}), flags=("scale_down",))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, scale = operands(node, inputs, 2)
        if scale.size != 1 or scale.dtype not in (x.dtype, "int32"):
            raise mismatch(node, "scale is not one element of the dtype of X, or an integer", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X * scale or X / scale."""
        x, scale = arrays(inputs, 2)
        scale = scale.reshape(()).astype(x.dtype)
        return (np.asarray(x / scale if node.attr_int("scale_down", 0) else x * scale),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY * scale, or dY / scale under `scale_down`."""
        if b.needs_grad(1):
            raise NotDifferentiable(f"node {node.name!r} (Scale) has no gradient with respect to the scale")
        if b.needs_grad(0):
            b.emit("Scale", (douts[0], node.inputs[1]), (b.grad(0),), scale_down=node.attr_int("scale_down", 0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Mul or Div by the scale as a scalar."""
        op = "Div" if node.attr_int("scale_down", 0) else "Mul"
        (x, scale), factor, nodes = operands(node, inputs, 2), node.inputs[1], []
        if scale.dtype != x.dtype:
            number = f"{node.outputs[0]}_number"
            nodes.append(Node(f"{node.name}_number", "AsFloat", (factor,), (number,)))
            factor = number
        if scale.shape:
            scalar = f"{node.outputs[0]}_scale"
            nodes.append(Node(f"{node.name}_scale", "Reshape", (factor,), (scalar,), {"shape": ()}))
            factor = scalar
        return [*nodes, Node(node.name, op, (node.inputs[0], factor), node.outputs)]


@register
class Sub(Binary):
    """Y = A - B with numpy broadcasting. Elementwise difference."""

    name = "Sub"
    numerics = Numerics(overflow="any")
    at_run_time = "IntegerSub"
    file = FileSpec(versions=(7, 13, 14), older={1: limited, 6: limited})
    kernel = binary_kernel("sub_f32")
    fusion = Fusion(signs=(1, -1))

    def apply(self, a: Array, b: Array) -> Array:
        """A - B."""
        return a - b

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY, dB = -dY, summed over the axes each was broadcast along."""
        if b.needs_grad(0):
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))
        if b.needs_grad(1):
            negative = b.temp("negative")
            b.emit("Mul", (douts[0], b.constant("minus_one", np.array(-1, np.float32))), (negative,))
            b.reduce_to(negative, b.type(node.inputs[1]).shape, b.grad(1))


@register
class Sum(Operator):
    """The sum of any number of operands with numpy broadcasting. Added from left to right."""

    name = "Sum"
    numerics = Numerics(overflow="any")
    file = FileSpec(versions=(8, 13), older={1: equal_shapes, 6: equal_shapes})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        present = operands(node, inputs, max(len(inputs), 1))
        if any(t.dtype != present[0].dtype for t in present):
            raise mismatch(node, "operands differ in dtype", inputs)
        try:
            return (TensorType(present[0].dtype, np.broadcast_shapes(*(t.shape for t in present))),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """((A + B) + C) + ..."""
        total, *rest = (x for x in inputs if x is not None)
        for x in rest:
            total = total + x
        return (np.asarray(total),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY for each, summed over the axes it was broadcast along."""
        for index, name in enumerate(node.inputs):
            if b.needs_grad(index):
                b.reduce_to(douts[0], b.type(name).shape, b.grad(index))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Adds from left to right; a single operand is an Identity."""
        if len(node.inputs) == 1:
            return [Node(node.name, "Identity", node.inputs, node.outputs)]
        nodes, total = [], node.inputs[0]
        for i, name in enumerate(node.inputs[1:], 1):
            last = i == len(node.inputs) - 1
            out = node.outputs[0] if last else f"{node.outputs[0]}_sum{i}"
            nodes.append(Node(node.name if last else f"{node.name}_add{i}", "Add", (total, name), (out,)))
            total = out
        return nodes
