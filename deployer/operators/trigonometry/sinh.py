"""Sinh: the hyperbolic sine."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Sinh(Pointwise):
    """Elementwise."""

    name = "Sinh"
    versions = (9, 22)
    formula = call("sinh", X)
