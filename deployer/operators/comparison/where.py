"""Where: X where a condition is true, else Y."""

from deployer.formulas.tree import Input, choose
from deployer.operators.declared import Spread, X, declare

CONDITION, OTHER = Input("condition", "int32"), Input("other")


@declare
class Where(Spread):
    """Elementwise; the gradient goes to what is chosen."""

    name = "Where"
    versions = (9, 16)
    operands = (CONDITION, X, OTHER)
    formula = choose(CONDITION, X, OTHER)
    integers = True
    at_run_time = "IntegerWhere"
