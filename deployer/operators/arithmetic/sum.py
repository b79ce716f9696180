"""Sum: the sum of any number of operands with numpy broadcasting."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.elementwise import equal_shapes
from deployer.operators.inputs import normal, operands


@register
class Sum(Operator):
    """Added from left to right."""

    name = "Sum"
    overflow = "any"
    versions = (8, 13)
    older: ClassVar[dict[int, Rule]] = {1: equal_shapes, 6: equal_shapes}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        present = operands(node, inputs, max(len(inputs), 1))
        if any(t.dtype != present[0].dtype for t in present):
            raise mismatch(node, "operands differ in dtype", inputs)
        try:
            return (TensorType(present[0].dtype, np.broadcast_shapes(*(t.shape for t in present))),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """((A + B) + C) + ..."""
        total, *rest = (x for x in inputs if x is not None)
        for x in rest:
            total = total + x
        return (np.asarray(total),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY for each, summed over the axes it was broadcast along."""
        for index, name in enumerate(node.inputs):
            if b.needs_grad(index):
                b.reduce_to(douts[0], b.type(name).shape, b.grad(index))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Adds from left to right; a single operand is an Identity."""
        if len(node.inputs) == 1:
            return [Node(node.name, "Identity", node.inputs, node.outputs)]
        nodes, total = [], node.inputs[0]
        for i, name in enumerate(node.inputs[1:], 1):
            last = i == len(node.inputs) - 1
            out = node.outputs[0] if last else f"{node.outputs[0]}_sum{i}"
            nodes.append(Node(node.name if last else f"{node.name}_add{i}", "Add", (total, name), (out,)))
            total = out
        return nodes

    def samples(self) -> Iterator[Sample]:
        """One, two and four operands."""
        r = rng(43)
        yield Sample("one", (normal(r, 5, 7),))
        yield Sample("two", (normal(r, 5, 7), normal(r, 7)))
        yield Sample("four", (normal(r, 5, 1), normal(r, 5, 7), normal(r), normal(r, 1, 7)))
