"""ConstantOfShape: one value in every element of a given shape; it only ever folds."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, unsupported
from deployer.operators.views.compile_time import Folded


@register
class ConstantOfShape(Folded):
    """`value` is a number or a list of one, default 0.0."""

    name = "ConstantOfShape"
    versions = (9, 20, 21, 23, 24, 25)
    unbounded = ("value",)
    static_inputs: ClassVar[dict[int, str]] = {0: "shape"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The given shape with the value's dtype."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = node.attr_ints("shape", ())
        if any(size < 0 for size in shape):
            raise mismatch(node, f"shape {shape} has a negative length", inputs)
        return (TensorType(_value(node).dtype.name, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The value everywhere."""
        value = _value(node)
        return (np.full(node.attr_ints("shape", ()), value, value.dtype),)

    def samples(self) -> Iterator[Sample]:
        """Default, a float, an integer."""
        yield Sample("default", (), {"shape": (2, 3)}, onnx=False)
        yield Sample("float", (), {"shape": (4,), "value": 1.5}, onnx=False)
        yield Sample("int", (), {"shape": (2,), "value": (7,)}, onnx=False)


def _value(node: Node) -> Array:
    value = node.attrs.get("value", 0.0)
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float)):
        raise unsupported(node, f"value {value!r} is not one number", "a tensor of one element")
    return np.array(value, np.int32 if isinstance(value, int) else np.float32)
