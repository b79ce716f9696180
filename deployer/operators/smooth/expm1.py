"""Expm1: Y = e^X - 1, without the loss of digits near zero."""

from deployer.core.forms import Form
from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Expm1(Pointwise):
    """Elementwise."""

    name = "Expm1"
    custom = Form((1, 1), (1, 1))
    formula = call("expm1", X)
