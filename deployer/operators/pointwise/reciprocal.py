"""Reciprocal: Y = 1 / X."""

from typing import ClassVar

import numpy as np

from deployer.core.forms import CONSUMED, Rule
from deployer.core.operator import Array
from deployer.formulas.tree import Input
from deployer.operators.declared import DY, Pointwise, X, Y, declare


@declare
class Reciprocal(Pointwise):
    """Elementwise; the slope is -Y^2."""

    name = "Reciprocal"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = 1.0 / X
    slopes: ClassVar = {"x": -(DY * (Y * Y))}

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Both signs, at a distance from 0."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x + np.copysign(np.float32(0.5), x), np.float32)
