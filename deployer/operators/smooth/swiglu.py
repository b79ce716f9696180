"""SwiGLU: Y = Swish(A) B."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal


@register
class SwiGLU(Operator):
    """Made of Swish and Mul."""

    name = "SwiGLU"
    versions = (28,)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of both operands."""
        a, b = floats(node, inputs, 2)
        if a != b:
            raise mismatch(node, "operands differ in shape", inputs)
        return (a,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A over 1 + e^(-alpha A), times B."""
        a, b = arrays(inputs, 2)
        alpha = a.dtype.type(node.attr_float("alpha", 1.0))
        return (np.asarray(a / (1 + np.exp(-alpha * a)) * b, a.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The gate, and the product."""
        gate = f"{node.name}/gate"
        alpha = {"alpha": node.attr_float("alpha", 1.0)}
        return [
            Node(gate, "Swish", node.inputs[:1], (gate,), dict(alpha)),
            Node(node.name, "Mul", (gate, node.inputs[1]), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """The usual one, and a steeper gate."""
        r = rng(176)
        yield Sample("plain", (normal(r, 5, 7), normal(r, 5, 7)), onnx=False)
        yield Sample("steep", (normal(r, 5, 7), normal(r, 5, 7)), {"alpha": 1.7}, onnx=False)
