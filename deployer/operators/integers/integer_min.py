"""IntegerMin: the smaller of two."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerMin(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerMin"
    operands = INTEGERS
    formula = call("smaller", *INTEGERS)
    no_gradient = "integers have none"
