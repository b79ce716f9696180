"""IntegerShiftRight: A over two to the power of B, towards the smaller, by shifting bits."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerShiftRight(Spread):
    """Elementwise; a shift by less than zero is one by all bits."""

    name = "IntegerShiftRight"
    operands = INTEGERS
    formula = call("right", *INTEGERS)
    no_gradient = "integers have none"
