"""Neg: Y = -X."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.operators.declared import Pointwise, X, declare


@declare
class Neg(Pointwise):
    """Elementwise."""

    name = "Neg"
    overflow = "any"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = -X
    integers = True
