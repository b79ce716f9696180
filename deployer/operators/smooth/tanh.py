"""Tanh: the hyperbolic tangent."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Tanh(Pointwise):
    """Elementwise."""

    name = "Tanh"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = call("tanh", X)
