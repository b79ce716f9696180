"""IsNaN: whether X is no number."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class IsNaN(Pointwise):
    """Elementwise; a truth."""

    name = "IsNaN"
    versions = (9, 13, 20)
    formula = call("negation", call("equal", X, X))
    no_gradient = "a truth has none"
