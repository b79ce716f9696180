"""ReduceL2: the root of the sum of the squares over some axes."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.inputs import floats
from deployer.operators.reduction.composed import ComposedReduction

SMALLEST = 2.0**-64
"""A norm below this is that in its gradient, so that X of zeros has zeros and nothing undefined, as in PyTorch."""


@register
class ReduceL2(ComposedReduction):
    """The root of ReduceSumSquare."""

    name = "ReduceL2"
    versions = (1, 11, 13, 18)

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
