"""Round: the nearest whole number, of two the even one."""

from typing import ClassVar

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Round(Pointwise):
    """Elementwise; the slope is 0."""

    name = "Round"
    versions = (11, 22)
    formula = call("round", X)
    kinks: ClassVar = {"x": (call("floor", X) + 0.5,)}
    spread = 3.0
