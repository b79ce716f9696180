"""Cosh: the hyperbolic cosine."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Cosh(Pointwise):
    """Elementwise."""

    name = "Cosh"
    versions = (9, 22)
    formula = call("cosh", X)
