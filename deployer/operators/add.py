"""Add: Y = A + B with numpy broadcasting."""

from collections.abc import Sequence

from deployer.elementwise import Binary, binary_kernel
from deployer.ir import Node
from deployer.operator import Array, GradientBuilder, register


@register
class Add(Binary):
    """Elementwise sum."""

    name = "Add"
    kernel = binary_kernel("add_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A + B."""
        return a + b

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY for both, summed over the axes each was broadcast along."""
        for index in (0, 1):
            if b.wanted(index):
                b.reduce_to(douts[0], b.type(node.inputs[index]).shape, b.grad(index))
