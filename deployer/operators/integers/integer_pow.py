"""IntegerPow: powers by integers; those by negative ones are towards zero, as quotients are."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerPow(Spread):
    """Elementwise, over integers of 32 bits; 0 by a negative one is 0."""

    name = "IntegerPow"
    operands = INTEGERS
    formula = call("power", *INTEGERS)
    no_gradient = "integers have none"
