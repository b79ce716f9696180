"""Acos: the angle whose cosine is X."""

import numpy as np

from deployer.core.operator import Array
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Acos(Pointwise):
    """Elementwise."""

    name = "Acos"
    versions = (7, 22)
    formula = call("acos", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers between -1 and 1."""
        return np.tanh(super().drawn(generator, operand, shape))
