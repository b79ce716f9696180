"""Xor: whether one alone is true."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.formulas.tree import call
from deployer.operators.declared import TRUTHS, Spread, declare
from deployer.operators.elementwise import limited


@declare
class Xor(Spread):
    """Elementwise; a truth."""

    name = "Xor"
    versions = (7,)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    operands = TRUTHS
    formula = call("differ", *TRUTHS)
    no_gradient = "a truth has none"
