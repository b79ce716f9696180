"""Scatter: ScatterElements as it was called before version 11."""

from collections.abc import Iterator, Sequence

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry
from deployer.operators.lookup.scatter_elements import ScatterElements


@register
class Scatter(Operator):
    """It has no reduction."""

    name = "Scatter"
    versions = (9,)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return _elements().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Elements put in one by one."""
        return _elements().reference(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ScatterElements."""
        return [Node(node.name, _elements().name, node.inputs, node.outputs, node.attrs)]

    def samples(self) -> Iterator[Sample]:
        """Those without a reduction."""
        for sample in _elements().samples():
            if "reduction" not in sample.attrs:
                yield Sample(sample.label, sample.inputs, sample.attrs, onnx=False)


def _elements() -> Operator:
    return registry()[ScatterElements.name]
