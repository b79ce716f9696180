"""Atan: the angle whose tangent is X."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Atan(Pointwise):
    """Elementwise."""

    name = "Atan"
    versions = (7, 22)
    formula = call("atan", X)
    spread = 3.0
