"""IntegerEqual: whether two are the same."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerEqual(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerEqual"
    operands = INTEGERS
    formula = call("whole_equal", *INTEGERS)
    no_gradient = "integers have none"
