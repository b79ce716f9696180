"""IntegerMax: the larger of two."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerMax(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerMax"
    operands = INTEGERS
    formula = call("larger", *INTEGERS)
    no_gradient = "integers have none"
