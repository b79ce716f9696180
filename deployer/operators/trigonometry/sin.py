"""Sin: the sine."""

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Sin(Pointwise):
    """Elementwise."""

    name = "Sin"
    versions = (7, 22)
    formula = call("sin", X)
    spread = 3.0
