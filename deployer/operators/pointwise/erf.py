"""Erf: the error function."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Erf(Pointwise):
    """Elementwise."""

    name = "Erf"
    versions = (9, 13)
    formula = call("erf", X)
