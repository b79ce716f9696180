"""IntegerMul: the product."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerMul(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerMul"
    operands = INTEGERS
    formula = call("product", *INTEGERS)
    no_gradient = "integers have none"
