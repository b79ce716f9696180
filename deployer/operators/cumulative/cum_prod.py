"""CumProd: products of all elements so far along an axis."""

import numpy as np

from deployer.core.operator import Array
from deployer.operators.cumulative.cumulative import Cumulative, cumulative_kernel
from deployer.operators.over_integers import over_integers


@over_integers
class CumProd(Cumulative):
    """One element after another."""

    name = "CumProd"
    versions = (26,)
    kernel = cumulative_kernel("cum_prod_f32")
    neutral = 1.0
    no_gradient = "right with zeros among the elements, it is as many products as there are pairs of them"

    def so_far(self, x: Array, axis: int) -> Array:
        """numpy's cumprod."""
        return np.asarray(np.cumprod(x, axis, dtype=x.dtype))
