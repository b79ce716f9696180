"""Softplus: Y = ln(1 + e^X)."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Softplus(Pointwise):
    """Elementwise."""

    name = "Softplus"
    versions = (1, 22)
    formula = call("softplus", X)
    spread = 4.0
