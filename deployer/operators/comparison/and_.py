"""And: whether both are true."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.formulas.tree import call
from deployer.operators.declared import TRUTHS, Spread, declare
from deployer.operators.elementwise import limited


@declare
class And(Spread):
    """Elementwise; a truth."""

    name = "And"
    versions = (7,)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    operands = TRUTHS
    formula = call("both", *TRUTHS)
    no_gradient = "a truth has none"
