"""Scatter: the older name of ScatterElements that replaces."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.inputs import normal
from deployer.operators.lookup.scatter_elements import ScatterElements


@register
class Scatter(Operator):
    """ScatterElements, which ONNX has from version 11 on."""

    name = "Scatter"
    versions = (9,)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return ScatterElements().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of ScatterElements."""
        return ScatterElements().reference(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same node under the newer name."""
        return [Node(node.name, "ScatterElements", node.inputs, node.outputs, node.attrs)]

    def samples(self) -> Iterator[Sample]:
        """Along either axis."""
        r = rng(171)
        ids = np.array([[1, 2, 0], [0, 1, 2], [2, 0, 1]], np.int32)
        yield Sample("columns", (normal(r, 3, 3), ids, normal(r, 3, 3)), {"axis": 1}, onnx=False)
