"""HardSwish: Y = X times X / 6 + 1 / 2 between 0 and 1."""

from typing import ClassVar

from deployer.formulas.tree import Number, least, most
from deployer.operators.declared import Pointwise, X, declare


@declare
class HardSwish(Pointwise):
    """Elementwise."""

    name = "HardSwish"
    versions = (14, 22)
    formula = X * most(0.0, least(1.0, X * (1 / 6) + 0.5))
    kinks: ClassVar = {"x": (Number(-3.0), Number(3.0))}
    spread = 3.0
