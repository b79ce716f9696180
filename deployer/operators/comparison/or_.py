"""Or: whether one is true, or both."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.formulas.tree import call
from deployer.operators.declared import TRUTHS, Spread, declare
from deployer.operators.elementwise import limited


@declare
class Or(Spread):
    """Elementwise; a truth."""

    name = "Or"
    versions = (7,)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    operands = TRUTHS
    formula = call("either", *TRUTHS)
    no_gradient = "a truth has none"
