"""Sign: Y = 1, -1 or 0."""

from typing import ClassVar

from deployer.formulas.functions import ZERO
from deployer.formulas.tree import choose
from deployer.operators.declared import Pointwise, X, declare


@declare
class Sign(Pointwise):
    """Elementwise; NaN stays NaN. The slope is 0."""

    name = "Sign"
    versions = (9, 13)
    formula = choose(X > 0.0, 1.0, choose(X < 0.0, -1.0, X))
    slopes: ClassVar = {"x": ZERO}
    kinks: ClassVar = {"x": (ZERO,)}
    integers = True
