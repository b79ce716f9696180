"""Sub: Y = A - B with numpy broadcasting."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.elementwise import Binary, binary_kernel, limited


@register
class Sub(Binary):
    """Elementwise difference."""

    name = "Sub"
    overflow = "any"
    at_run_time = "IntegerSub"
    versions = (7, 13, 14)
    older: ClassVar[dict[int, Rule]] = {1: limited, 6: limited}
    kernel = binary_kernel("sub_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A - B."""
        return a - b

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY, dB = -dY, summed over the axes each was broadcast along."""
        if b.needs_grad(0):
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))
        if b.needs_grad(1):
            negative = b.temp("negative")
            b.emit("Mul", (douts[0], b.constant("minus_one", np.array(-1, np.float32))), (negative,))
            b.reduce_to(negative, b.type(node.inputs[1]).shape, b.grad(1))
