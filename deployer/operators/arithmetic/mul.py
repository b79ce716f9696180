"""Mul: Y = A * B with numpy broadcasting."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from deployer.core.forms import Rule
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.elementwise import Binary, binary_kernel, limited


@register
class Mul(Binary):
    """Elementwise product."""

    name = "Mul"
    overflow = "any"
    at_run_time = "IntegerMul"
    versions = (7, 13, 14)
    older: ClassVar[dict[int, Rule]] = {1: limited, 6: limited}
    kernel = binary_kernel("mul_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A * B."""
        return a * b

    def multiple(self, numbers: Mapping[int, float]) -> tuple[int, float] | None:
        """A number times the other input."""
        return next(((1 - position, number) for position, number in numbers.items()), None)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY B, dB = dY A, summed over the axes each was broadcast along."""
        for index in (0, 1):
            if b.needs_grad(index):
                product = b.temp("product")
                b.emit("Mul", (douts[0], node.inputs[1 - index]), (product,))
                b.reduce_to(product, b.type(node.inputs[index]).shape, b.grad(index))
