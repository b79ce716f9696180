"""Elu: Y = X where X > 0, else alpha (e^X - 1)."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import Setting, call, choose
from deployer.operators.declared import Pointwise, X, declare


@declare
class Elu(Pointwise):
    """Elementwise."""

    name = "Elu"
    versions = (6, 22)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = choose(X > 0.0, X, Setting("alpha") * call("expm1", X))
    settings: ClassVar = {"alpha": 1.0}
    kinks: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.7},)
