"""BitwiseXor: the bits that one alone has."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class BitwiseXor(Spread):
    """Elementwise."""

    name = "BitwiseXor"
    versions = (18,)
    operands = INTEGERS
    formula = call("bits_xor", *INTEGERS)
    no_gradient = "integers have none"
