"""Acosh: the inverse of the hyperbolic cosine."""

import numpy as np

from deployer.core.operator import Array
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Acosh(Pointwise):
    """Elementwise."""

    name = "Acosh"
    versions = (9, 22)
    formula = call("acosh", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers above 1."""
        return np.float32(1) + np.exp(super().drawn(generator, operand, shape))
