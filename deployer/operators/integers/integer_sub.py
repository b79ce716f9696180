"""IntegerSub: the difference."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerSub(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerSub"
    operands = INTEGERS
    formula = call("difference", *INTEGERS)
    no_gradient = "integers have none"
