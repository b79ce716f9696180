"""Greater: whether A is above B."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.operators.declared import A, B, Spread, declare
from deployer.operators.elementwise import limited


@declare
class Greater(Spread):
    """Elementwise; a truth."""

    name = "Greater"
    versions = (7, 9, 13)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    operands = (A, B)
    formula = A > B
    kinks: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerGreater"
    no_gradient = "a truth has none"
