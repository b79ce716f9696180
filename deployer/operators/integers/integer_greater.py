"""IntegerGreater: whether A is above B."""

from deployer.formulas.tree import call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerGreater(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerGreater"
    operands = INTEGERS
    formula = call("whole_less", *reversed(INTEGERS))
    no_gradient = "integers have none"
