"""ArgMin: where along an axis the smallest element is."""

import numpy as np

from deployer.core.operator import Array, register
from deployer.operators.order.extreme import ArgExtreme


@register
class ArgMin(ArgExtreme):
    """The first of several, or the last; the first NaN where there is one."""

    name = "ArgMin"
    extreme = "ReduceMin"

    def position(self, x: Array, axis: int) -> Array:
        """numpy's."""
        return np.asarray(np.argmin(x, axis))
