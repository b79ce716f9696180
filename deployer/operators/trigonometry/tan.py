"""Tan: the tangent."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Tan(Pointwise):
    """Elementwise; at its poles there is no border: a float is never there."""

    name = "Tan"
    versions = (7, 22)
    formula = call("tan", X)
