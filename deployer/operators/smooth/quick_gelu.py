"""QuickGelu: Y = X / (1 + e^(-alpha X)), ONNX Runtime's name of Swish with another default of alpha."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, registry, rng
from deployer.operators.inputs import floats, normal

ALPHA = 1.702
"""Default of a node without the attribute."""


class Quick(Operator):
    """An operator that is `of` with alpha from the node, or ALPHA."""

    composite = True
    of: ClassVar[str]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return registry()[self.of].infer(self._plain(node), floats(node, inputs, len(node.inputs)))

    def _plain(self, node: Node) -> Node:
        attrs: dict[str, AttrValue] = {"alpha": node.attr_float("alpha", ALPHA)}
        return Node(node.name, self.of, node.inputs, node.outputs, attrs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of the other operator."""
        return registry()[self.of].reference(self._plain(node), inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The other operator."""
        return [self._plain(node)]


@register
class QuickGelu(Quick):
    """Elementwise."""

    name = "QuickGelu"
    custom = Form((1, 1), (1, 1), {"alpha": "FLOAT"})
    of = "Swish"

    def samples(self) -> Iterator[Sample]:
        """By default, and with alpha 1."""
        yield Sample("vector", (normal(rng(132), 37),))
        yield Sample("one", (normal(rng(133), 5, 7),), {"alpha": 1.0})
