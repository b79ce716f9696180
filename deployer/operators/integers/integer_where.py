"""IntegerWhere: A where a condition is true, else B."""

from deployer.formulas.tree import Input, call
from deployer.operators.declared import INTEGERS, Spread, declare

CONDITION = Input("condition", "int32")


@declare
class IntegerWhere(Spread):
    """Elementwise, over integers of 32 bits."""

    name = "IntegerWhere"
    operands = (CONDITION, *INTEGERS)
    formula = call("whole_choose", CONDITION, *INTEGERS)
    no_gradient = "integers have none"
