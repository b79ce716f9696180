"""IntegerLessOrEqual: whether A is not above B."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerLessOrEqual(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerLessOrEqual"
    operands = INTEGERS
    formula = call("whole_at_most", *INTEGERS)
    no_gradient = "integers have none"
