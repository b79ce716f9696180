"""ReduceLogSum: the logarithm of the sum over some axes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, register
from deployer.operators.inputs import arrays, floats
from deployer.operators.reduction.composed import ComposedReduction
from deployer.operators.reduction.reduction import expand_to


@register
class ReduceLogSum(ComposedReduction):
    """Log of ReduceSum."""

    name = "ReduceLogSum"
    versions = (1, 11, 13, 18, 28)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's logarithm of the sum."""
        x, axes, keep = self.operand(node, inputs)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (np.asarray(np.log(x.sum(axes, dtype=x.dtype, keepdims=keep))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sum, and its logarithm."""
        x, total = floats(node, inputs, 1)[0], f"{node.name}/total"
        return [
            Node(total, "ReduceSum", node.inputs[:1], (total,), self.along(node, x)),
            Node(node.name, "Log", (total,), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY / exp(Y), repeated along the axes."""
        if b.needs_grad(0):
            total, slope = b.temp("total"), b.temp("slope")
            b.emit("Exp", (node.outputs[0],), (total,))
            b.emit("Div", (douts[0], total), (slope,))
            expand_to(b, self.column(node, slope, b), b.type(node.inputs[0]).shape, b.grad(0))

    def samples(self) -> Iterator[Sample]:
        """Sums above zero."""
        for sample in super().samples():
            [x] = arrays(sample.inputs, 1)
            yield replace(sample, inputs=(np.abs(x) + np.float32(0.125),))
