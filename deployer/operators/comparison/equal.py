"""Equal: whether A is B."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.formulas.tree import call
from deployer.operators.declared import A, B, Spread, declare
from deployer.operators.elementwise import limited


@declare
class Equal(Spread):
    """Elementwise; a truth."""

    name = "Equal"
    versions = (7, 11, 13, 19)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    operands = (A, B)
    formula = call("equal", A, B)
    kinks: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerEqual"
    no_gradient = "a truth has none"
