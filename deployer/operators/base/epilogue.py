"""Relu and its gradient as the epilogue of the operator whose result they read: attribute, operand, arguments, meaning.

A kernel applies them to an output when its sum is complete, so the bits are those of two steps.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Stride
from deployer.core.operator import Array, GradientBuilder, mismatch, unsupported
from deployer.core.traits.fusion import ACTIVATION
from deployer.operators.elementwise.activation import RELU_FINISH, Relu, ReluGrad
from deployer.operators.elementwise.activation import RELU_GRAD_FINISH as GATE_FINISH

RELU = Relu.name
GATE = GATE_FINISH.pointer
"""The kernel pointer behind which Y of a Relu lies: where it is not above zero, the result becomes zero."""
GATE_POINTER = (GATE, "float32", False)
GATED = "gated"
"""The attribute, and the kernel's scalar, that says that the result is gated by an input which is Y of the Relu."""
RELU_SCALAR: tuple[str, CType] = (RELU_FINISH.scalar, "u32")


def has_relu(node: Node) -> bool:
    """Whether the result goes through Relu; UnsupportedOperator for another activation."""
    activation = node.attr_str(ACTIVATION, "")
    if activation not in ("", RELU):
        raise unsupported(node, f"its activation is {activation!r}", f"activation {RELU!r}, or a node of its own")
    return activation == RELU


def gate_of(node: Node, position: int) -> str:
    """The name of the input that gates the result, a Relu's Y; empty where there is none."""
    return node.inputs[position] if len(node.inputs) > position else ""


def extra_work(node: Node, access: Access) -> int:
    """The cost of a fused Relu (a comparison) or gate (a load too) per output element, in multiply-accumulates."""
    return int(has_relu(node)) + 2 * sum(operand.arg == GATE for operand in access.operands)


def class_with_epilogue(cost_class: str, node: Node, access: Access) -> str:
    """The cost class of a kernel's work: one of its own where Relu or a gate is fused."""
    gated = any(operand.arg == GATE for operand in access.operands)
    return "_".join(filter(None, (cost_class, "gated" if gated else "relu" if has_relu(node) else "")))


def gate_class(access: Access) -> str:
    """The cost class of a kernel that may have a gate, and no other class."""
    return "gated" if any(operand.arg == GATE for operand in access.operands) else ""


def check_gate(node: Node, inputs: Sequence[TensorType | None], position: int, y: TensorType) -> None:
    """Raise ShapeMismatch where the gate's type is not the result's."""
    gate = inputs[position] if len(inputs) > position else None
    if gate is not None and gate != y:
        raise mismatch(node, f"the gate is {gate}, the result {y}", inputs)


def finished(node: Node, y: Array, gate: Array | None = None) -> Array:
    """The result after the fused Relu and the fused gate."""
    zero = y.dtype.type(0)
    y = np.maximum(y, zero) if has_relu(node) else y
    return y if gate is None else np.where(gate > 0, y, zero)


def gate_array(inputs: Sequence[Array | None], position: int) -> Array | None:
    """The gate's values; None without a gate."""
    return inputs[position] if len(inputs) > position else None


def gate_operands(node: Node, position: int, y: Operand) -> tuple[Operand, ...]:
    """The gate as an operand with the output's box; empty without a gate."""
    name = gate_of(node, position)
    return (Operand(GATE, name, "in", y.view, y.axes),) if name else ()


def gate_args(access: Access, axes: Mapping[str, int]) -> dict[str, ArgValue]:
    """Strides of the gate by the suffix of their argument, zero where there is no gate."""
    gated = any(operand.arg == GATE for operand in access.operands)
    return {f"{GATE}_{name}": Stride(GATE, axis) if gated else Const(0) for name, axis in axes.items()}


def own_gate(node: Node, y: Array, gate: Array) -> Array:
    """The result after the gradient of a Relu whose Y is the input `gate`, where that is fused."""
    return np.where(gate > 0, y, y.dtype.type(0)) if node.attr_int(GATED, 0) else y


def own_args(node: Node) -> dict[str, ArgValue]:
    """Whether the kernel gates its result by an input of its own."""
    return {GATED: Const(node.attr_int(GATED, 0))}


def relu_args(node: Node) -> dict[str, ArgValue]:
    """Whether the kernel applies Relu."""
    return {RELU_SCALAR[0]: Const(int(has_relu(node)))}


def through(node: Node, dout: str, b: GradientBuilder, position: int | None = None) -> str:
    """The gradient of what Relu or a gate were applied to. Y of another Relu is no input to differentiate by."""
    gate = gate_of(node, position) if position is not None else ""
    if position is not None and gate and b.needs_grad(position):
        raise NotDifferentiable(f"node {node.name!r} ({node.op}): its gate, {gate!r}, has no gradient")
    if gate:
        inner = b.temp("gated")
        b.emit(ReluGrad.name, (dout, gate), (inner,))
        dout = inner
    if has_relu(node):
        inner = b.temp("activated")
        b.emit(ReluGrad.name, (dout, node.outputs[0]), (inner,))
        dout = inner
    return dout
