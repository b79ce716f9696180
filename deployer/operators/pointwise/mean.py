"""Mean: the mean of any number of operands with numpy broadcasting."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.arithmetic.sum import Sum
from deployer.operators.elementwise import equal_shapes
from deployer.operators.inputs import floats


@register
class Mean(Sum):
    """The sum from left to right, divided by the number of operands."""

    name = "Mean"
    versions = (8, 13)
    older: ClassVar[dict[int, Rule]] = {1: equal_shapes, 6: equal_shapes}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        floats(node, inputs, max(len(inputs), 1))
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """((A + B) + C + ...) / n."""
        (total,) = super().reference(node, inputs)
        return (np.asarray(total / total.dtype.type(len(node.inputs))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY / n for each, summed over the axes it was broadcast along."""
        share = b.temp("share")
        b.emit("Divided", (douts[0],), (share,), by=float(len(node.inputs)))
        super().gradient(node, (share,), b)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Sum, and its division."""
        total = f"{node.outputs[0]}/total"
        count = float(len(node.inputs))
        return [
            Node(f"{node.name}/total", "Sum", node.inputs, (total,)),
            Node(node.name, "Divided", (total,), node.outputs, {"by": count}),
        ]
