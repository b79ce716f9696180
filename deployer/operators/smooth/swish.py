"""Swish: Y = X / (1 + e^(-alpha X))."""

from typing import ClassVar

from deployer.formulas.tree import Setting, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Swish(Pointwise):
    """Elementwise."""

    name = "Swish"
    versions = (24,)
    formula = X * call("sigmoid", Setting("alpha") * X)
    settings: ClassVar = {"alpha": 1.0}
    trials = ({"alpha": 1.7},)
