"""ReduceL1: the sum of the magnitudes over some axes."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.inputs import floats
from deployer.operators.reduction.composed import ComposedReduction


@register
class ReduceL1(ComposedReduction):
    """ReduceSum of Abs."""

    name = "ReduceL1"
    overflow = "any"
    versions = (1, 11, 13, 18)

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
