"""Asinh: the inverse of the hyperbolic sine."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Asinh(Pointwise):
    """Elementwise."""

    name = "Asinh"
    versions = (9, 22)
    formula = call("asinh", X)
    spread = 3.0
