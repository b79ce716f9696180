"""Abs: Y = |X|."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Abs(Pointwise):
    """Elementwise; at 0 the slope is 0, as PyTorch's."""

    name = "Abs"
    overflow = "any"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = call("abs", X)
    kinks: ClassVar = {"x": (ZERO,)}
    integers = True
