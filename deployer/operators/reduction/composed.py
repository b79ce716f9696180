"""What reductions share that are made of others: their attributes passed on, and how their lowered nodes are named."""

from collections.abc import Sequence

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array
from deployer.operators.inputs import arrays
from deployer.operators.reduction.reduction import Reducing

Along = dict[str, AttrValue]
"""The attributes of a reduction along the same axes."""


class ComposedReduction(Reducing):
    """A reduction without a kernel of its own."""

    def along(self, node: Node, x: TensorType) -> Along:
        """Attributes that reduce the node's axes of X, and none where it has none."""
        return {"axes": self.axes(node, x), "keepdims": node.attr_int("keepdims", 1), "noop_with_empty_axes": 1}

    def operand(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, tuple[int, ...], bool]:
        """X, the axes and whether they are kept, as numpy takes them."""
        x = arrays(inputs, 1)[0]
        return x, self.axes(node, TensorType("float32", x.shape)), bool(node.attr_int("keepdims", 1))


def number(name: str, value: float) -> Node:
    """A constant of that name."""
    return Node(name, "Constant", (), (name,), {"value_float": value})
