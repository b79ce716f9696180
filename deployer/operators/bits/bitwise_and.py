"""BitwiseAnd: the bits that both have."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class BitwiseAnd(Spread):
    """Elementwise."""

    name = "BitwiseAnd"
    versions = (18,)
    operands = INTEGERS
    formula = call("bits_and", *INTEGERS)
    no_gradient = "integers have none"
