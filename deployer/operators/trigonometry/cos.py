"""Cos: the cosine."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Cos(Pointwise):
    """Elementwise."""

    name = "Cos"
    versions = (7, 22)
    formula = call("cos", X)
    spread = 3.0
