"""BitwiseOr: the bits that either has."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class BitwiseOr(Spread):
    """Elementwise."""

    name = "BitwiseOr"
    versions = (18,)
    operands = INTEGERS
    formula = call("bits_or", *INTEGERS)
    no_gradient = "integers have none"
