"""ConcatTraining: Concat, with the length of each input along the axis as a second output."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry, rng
from deployer.operators.inputs import normal, operands


@register
class ConcatTraining(Operator):
    """ONNX Runtime's; SplitTraining of the backward pass reads the lengths."""

    name = "ConcatTraining"
    custom = Form((1, 2**31 - 1), (1, 2), {"axis": "INT"}, frozenset({"axis"}))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of Concat, and an integer per input."""
        return (*registry()["Concat"].infer(node, inputs), TensorType("int32", (len(node.inputs),)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of Concat, and the lengths."""
        axis = node.attr_int("axis", 0)
        lengths = [x.shape[axis] for x in inputs if x is not None]
        return (*registry()["Concat"].reference(node, inputs), np.array(lengths, np.int32))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Concat, and a constant."""
        y, lengths = (*node.outputs, "")[:2]
        axis = node.attr_int("axis", 0)
        nodes = [Node(node.name, "Concat", node.inputs, (y,), {"axis": axis})]
        if lengths:
            counts = tuple(kind.shape[axis] for kind in operands(node, inputs, len(node.inputs)))
            nodes.append(Node(f"{node.name}/lengths", "Constant", (), (lengths,), {"value_ints": counts}))
        return nodes

    def samples(self) -> Iterator[Sample]:
        """Two inputs and three, with lengths and without."""
        r = rng(135)
        yield Sample("rows", (normal(r, 2, 5), normal(r, 3, 5)), {"axis": 0}, 2, onnx=False)
        yield Sample("columns", tuple(normal(r, 2, n, 3) for n in (1, 4, 2)), {"axis": -2}, 2, onnx=False)
        yield Sample("alone", (normal(r, 2, 5), normal(r, 2, 3)), {"axis": 1}, 1, onnx=False)
