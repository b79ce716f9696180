"""Bitwise logic and shifts of integers."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Numerics, Overflow
from deployer.expressions.formula import Input
from deployer.expressions.tree import call
from deployer.expressions.values import evaluate
from deployer.operators.base.elementwise_dsl import INTEGERS, BroadcastElementwise, Pointwise, elementwise
from deployer.operators.base.operands import arrays, operands

DIRECTIONS = {"RIGHT": ("IntegerShiftRight", "shift_right"), "LEFT": ("IntegerShiftLeft", "shift_left")}


def _overflow_of(node: Node) -> Overflow:
    """To the left any; to the right none."""
    return "any" if node.attr_str("direction", "") == "LEFT" else "none"


@register
class BitShift(Operator):
    """The bits of X moved to the left or to the right by as many places as Y says. An operator for each direction."""

    name = "BitShift"
    file = FileSpec(versions=(11, 28))
    no_gradient = "integers have none"
    numerics = Numerics(overflow=_overflow_of)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of two operands that are integers."""
        a, b = operands(node, inputs, 2)
        if node.attr_str("direction", "") not in DIRECTIONS:
            raise unsupported(node, f"its direction is {node.attrs.get('direction')!r}", "LEFT or RIGHT")
        if a.dtype != "int32" or b.dtype != "int32":
            raise mismatch(node, "its operands are not integers", inputs)
        try:
            return (TensorType(a.dtype, np.broadcast_shapes(a.shape, b.shape)),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's shifts, and what ONNX says of others."""
        shift = call(DIRECTIONS[node.attr_str("direction", "")][1], *INTEGERS)
        return (evaluate(shift, dict(zip("ab", arrays(inputs, 2), strict=True)), {}),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The operator of the direction."""
        return [Node(node.name, DIRECTIONS[node.attr_str("direction", "")][0], node.inputs, node.outputs)]


@elementwise
class BitwiseAnd(BroadcastElementwise):
    """The bits that both have. Elementwise."""

    name = "BitwiseAnd"
    file = FileSpec(versions=(18,))
    operands = INTEGERS
    formula = call("and", *INTEGERS)
    no_gradient = "integers have none"


INTEGER = Input("x", "int32", is_int=True)


@elementwise
class BitwiseNot(Pointwise):
    """The bits that X has not. Elementwise."""

    name = "BitwiseNot"
    numerics = Numerics(overflow="unsigned")
    file = FileSpec(versions=(18,))
    operands = (INTEGER,)
    formula = call("not", INTEGER)
    no_gradient = "integers have none"


@elementwise
class BitwiseOr(BroadcastElementwise):
    """The bits that either has. Elementwise."""

    name = "BitwiseOr"
    file = FileSpec(versions=(18,))
    operands = INTEGERS
    formula = call("or", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class BitwiseXor(BroadcastElementwise):
    """The bits that one alone has. Elementwise."""

    name = "BitwiseXor"
    file = FileSpec(versions=(18,))
    operands = INTEGERS
    formula = call("xor", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerShiftLeft(BroadcastElementwise):
    """A times two to the power of B, by shifting bits. Elementwise; a shift by less than zero is one by all bits."""

    name = "IntegerShiftLeft"
    operands = INTEGERS
    formula = call("shift_left", *INTEGERS)
    no_gradient = "integers have none"


@elementwise
class IntegerShiftRight(BroadcastElementwise):
    """A over two to the power of B, towards the smaller, by shifting bits.

    Elementwise; a shift by less than zero is one by all bits.
    """

    name = "IntegerShiftRight"
    operands = INTEGERS
    formula = call("shift_right", *INTEGERS)
    no_gradient = "integers have none"
