"""IntegerAdd: the sum."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerAdd(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerAdd"
    operands = INTEGERS
    formula = call("sum", *INTEGERS)
    no_gradient = "integers have none"
