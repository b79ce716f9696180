"""BitwiseNot: the bits that X has not."""

from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, declare

WHOLE = Input("x", "int32", whole=True)


@declare
class BitwiseNot(Pointwise):
    """Elementwise."""

    name = "BitwiseNot"
    overflow = "unsigned"
    versions = (18,)
    operands = (WHOLE,)
    formula = call("bits_not", WHOLE)
    no_gradient = "integers have none"
