"""Mish: Y = X tanh(ln(1 + e^X))."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Mish(Pointwise):
    """Elementwise."""

    name = "Mish"
    versions = (18, 22)
    formula = X * call("tanh", call("softplus", X))
    spread = 4.0
