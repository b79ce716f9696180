"""ReduceMin: the minimum over some axes."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.inputs import operands
from deployer.operators.reduction.composed import ComposedReduction, number
from deployer.operators.reduction.reduction import share_gradient


@register
class ReduceMin(ComposedReduction):
    """Minus ReduceMax of minus X; of integers, the smallest of which has no negative, all bits turned around."""

    name = "ReduceMin"
    versions = (1, 11, 12, 13, 18, 20)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's minimum."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(x.min(axes, keepdims=keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The maximum of X turned around, turned around."""
        x = operands(node, inputs, 1)[0]
        minus, turned, most = (f"{node.name}/{label}" for label in ("minus", "turned", "most"))
        if x.dtype == "int32":
            return [
                Node(turned, "BitwiseNot", node.inputs[:1], (turned,)),
                Node(most, "ReduceMax", (turned,), (most,), self.along(node, x)),
                Node(node.name, "BitwiseNot", (most,), node.outputs),
            ]
        return [
            number(minus, -1.0),
            Node(turned, "Mul", (node.inputs[0], minus), (turned,)),
            Node(most, "ReduceMax", (turned,), (most,), self.along(node, x)),
            Node(node.name, "Mul", (most, minus), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Equal minima share dY."""
        share_gradient(self, node, douts[0], b)
