"""Ceil: the smallest whole number that is not below X."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Ceil(Pointwise):
    """Elementwise; the slope is 0."""

    name = "Ceil"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = call("ceil", X)
    kinks: ClassVar = {"x": (call("round", X),)}
    spread = 3.0
