"""ReduceSumSquare: the sum of the squares over some axes."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.inputs import floats
from deployer.operators.reduction.composed import ComposedReduction


@register
class ReduceSumSquare(ComposedReduction):
    """ReduceSum of X X."""

    name = "ReduceSumSquare"
    overflow = "any"
    versions = (1, 11, 13, 18)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's sum of squares."""
        x, axes, keep = self.operand(node, inputs)
        return (np.asarray(np.square(x).sum(axes, dtype=x.dtype, keepdims=keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The squares, and their sum."""
        x, squares = floats(node, inputs, 1)[0], f"{node.name}/squares"
        return [
            Node(squares, "Mul", (node.inputs[0], node.inputs[0]), (squares,)),
            Node(node.name, "ReduceSum", (squares,), node.outputs, self.along(node, x)),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = X 2 dY."""
        if b.needs_grad(0):
            twice = b.temp("twice")
            b.emit("Mul", (self.column(node, douts[0], b), b.constant("two", np.array(2, np.float32))), (twice,))
            b.emit("Mul", (node.inputs[0], twice), (b.grad(0),))
