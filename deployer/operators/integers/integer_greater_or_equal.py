"""IntegerGreaterOrEqual: whether A is not below B."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerGreaterOrEqual(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerGreaterOrEqual"
    operands = INTEGERS
    formula = call("whole_at_most", *reversed(INTEGERS))
    no_gradient = "integers have none"
