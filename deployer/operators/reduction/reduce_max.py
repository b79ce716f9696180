"""ReduceMax: the maximum over some axes."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Sums
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Kernel
from deployer.operators.inputs import arrays
from deployer.operators.over_integers import over_integers
from deployer.operators.reduction.reduction import Reduction, reduce_kernel, share_gradient


@over_integers
class ReduceMax(Reduction):
    """The result is NaN where one of its elements is."""

    name = "ReduceMax"
    versions = (1, 11, 12, 13, 18, 20)
    kernel: ClassVar[Kernel] = reduce_kernel("reduce_max_f32", sums=False)
    sums: ClassVar[Sums | None] = None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's maximum."""
        x = arrays(inputs, 1)[0]
        axes = self.axes(node, TensorType("float32", x.shape))
        return (np.asarray(x.max(axes, keepdims=bool(node.attr_int("keepdims", 1)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Equal maxima share dY."""
        share_gradient(self, node, douts[0], b)
