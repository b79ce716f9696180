"""IntegerDiv: the quotient, towards zero."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerDiv(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerDiv"
    operands = INTEGERS
    formula = call("quotient", *INTEGERS)
    no_gradient = "integers have none"
