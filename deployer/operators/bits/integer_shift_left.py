"""IntegerShiftLeft: A times two to the power of B, by shifting bits."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerShiftLeft(Spread):
    """Elementwise; a shift by less than zero is one by all bits."""

    name = "IntegerShiftLeft"
    operands = INTEGERS
    formula = call("left", *INTEGERS)
    no_gradient = "integers have none"
