"""Softsign: Y = X / (1 + |X|)."""

from typing import ClassVar

from deployer.formulas.tree import call
from deployer.operators.declared import DY, Pointwise, X, declare


@declare
class Softsign(Pointwise):
    """Elementwise."""

    name = "Softsign"
    versions = (1, 22)
    formula = X / (1.0 + call("abs", X))
    slopes: ClassVar = {"x": DY / ((1.0 + call("abs", X)) * (1.0 + call("abs", X)))}
