"""ArgMax: where along an axis the largest element is."""

import numpy as np

from deployer.core.operator import Array, register
from deployer.operators.order.extreme import ArgExtreme


@register
class ArgMax(ArgExtreme):
    """The first of several, or the last; the first NaN where there is one."""

    name = "ArgMax"
    extreme = "ReduceMax"

    def position(self, x: Array, axis: int) -> Array:
        """numpy's."""
        return np.asarray(np.argmax(x, axis))
