"""Sqrt: the square root; NaN of what is negative."""

from typing import ClassVar

import numpy as np

from deployer.core.forms import CONSUMED, Rule
from deployer.core.operator import Array
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Sqrt(Pointwise):
    """Elementwise."""

    name = "Sqrt"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = call("sqrt", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Positive values on both sides of 1."""
        return np.exp(super().drawn(generator, operand, shape))
