"""IntegerLess: whether A is below B."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerLess(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerLess"
    operands = INTEGERS
    formula = call("whole_less", *INTEGERS)
    no_gradient = "integers have none"
