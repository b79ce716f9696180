"""Atanh: the inverse of the hyperbolic tangent."""

import numpy as np

from deployer.core.operator import Array
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Atanh(Pointwise):
    """Elementwise."""

    name = "Atanh"
    versions = (9, 22)
    formula = call("atanh", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers between -1 and 1."""
        return np.tanh(super().drawn(generator, operand, shape))
