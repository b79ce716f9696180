"""Sigmoid: Y = 1 / (1 + e^-X)."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Sigmoid(Pointwise):
    """Elementwise."""

    name = "Sigmoid"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = call("sigmoid", X)
    spread = 4.0
