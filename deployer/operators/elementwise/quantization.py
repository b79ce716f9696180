"""Conversions between integers and floats by a scale and a zero point."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import operands
from deployer.operators.base.views import normalized_axes


@register
class DequantizeLinear(Operator):
    """Y = (X - zero point) scale, of integers of 8, 16 or 32 bits.

    Scale and zero point are numbers, or vectors along `axis`.
    """

    name = "DequantizeLinear"
    file = FileSpec(versions=(10, 13, 19, 21, 23, 24, 25, 28))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Floats in X's shape; UnsupportedOperator for scales of blocks."""
        x, scale = operands(node, inputs, 2)
        point = inputs[2] if len(inputs) > 2 else None
        if x.dtype != "int32" or scale.dtype != "float32" or (point and point != TensorType("int32", scale.shape)):
            raise mismatch(node, "X or its zero point is not an integer, or the scale no float", inputs)
        if node.attr_int("block_size", 0) or len(scale.shape) > 1:
            raise unsupported(node, "its scales are those of blocks", "a scale, or one for each index of an axis")
        _column(node, x, scale, inputs)
        return (TensorType("float32", x.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The difference of integers, as floats, times the scale."""
        x, scale, point = (*inputs, None)[:3]
        assert x is not None
        assert scale is not None
        types = [TensorType("int32", x.shape), TensorType("float32", scale.shape)]
        shape = _column(node, types[0], types[1], types)
        start = 0 if point is None else point.astype(np.int64).reshape(shape)
        return (np.asarray((x.astype(np.int64) - start).astype(scale.dtype) * scale.reshape(shape)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Sub of integers, Cast and Mul."""
        x, scale = operands(node, inputs, 2)
        attrs: dict[str, AttrValue] = {"shape": _column(node, x, scale, inputs)}
        factor, start, offset, number = (f"{node.name}/{label}" for label in ("scale", "point", "offset", "number"))
        nodes, integers = [Node(factor, "Reshape", node.inputs[1:2], (factor,), attrs)], node.inputs[0]
        if len(node.inputs) > 2 and node.inputs[2]:
            nodes.append(Node(start, "Reshape", node.inputs[2:3], (start,), attrs))
            nodes.append(Node(offset, "Sub", (integers, start), (offset,)))
            integers = offset
        nodes.append(Node(number, "Cast", (integers,), (number,), {"to": TensorProto.FLOAT}))
        return [*nodes, Node(node.name, "Mul", (number, factor), node.outputs)]


def _column(node: Node, x: TensorType, scale: TensorType, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
    """The shape in which the scale stands beside X."""
    if scale.size == 1 and len(scale.shape) <= 1:
        return ()
    [axis] = normalized_axes(node, (node.attr_int("axis", 1),), len(x.shape), inputs)
    if scale.shape != x.shape[axis : axis + 1]:
        raise mismatch(node, f"its scale is {scale}, axis {axis} of X is {x.shape[axis]} long", inputs)
    return (-1, *[1] * (len(x.shape) - axis - 1))
