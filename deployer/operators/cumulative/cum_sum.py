"""CumSum: sums of all elements so far along an axis."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder
from deployer.operators.cumulative.cumulative import Cumulative, cumulative_kernel
from deployer.operators.inputs import one_number
from deployer.operators.over_integers import over_integers


@over_integers
class CumSum(Cumulative):
    """One element after another."""

    name = "CumSum"
    versions = (11, 14)
    kernel = cumulative_kernel("cum_sum_f32")
    neutral = 0.0

    def so_far(self, x: Array, axis: int) -> Array:
        """numpy's cumsum."""
        return np.asarray(np.cumsum(x, axis, dtype=x.dtype))

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The sums of dY from the other end."""
        if b.needs_grad(0):
            axis = b.constant("axis", np.array(one_number(node, "axis"), np.int64))
            flags = {"exclusive": node.attr_int("exclusive", 0), "reverse": 1 - node.attr_int("reverse", 0)}
            b.emit("CumSum", (douts[0], axis), (b.grad(0),), **flags)
