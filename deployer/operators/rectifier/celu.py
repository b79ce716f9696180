"""Celu: Y = X where X > 0, else alpha (e^(X / alpha) - 1)."""

from typing import ClassVar

from deployer.formulas.tree import Setting, call, choose
from deployer.operators.declared import DY, Pointwise, X, declare


@declare
class Celu(Pointwise):
    """Elementwise; the slope has no jump."""

    name = "Celu"
    versions = (12, 28)
    formula = choose(X > 0.0, X, Setting("alpha") * call("expm1", X / Setting("alpha")))
    slopes: ClassVar = {"x": choose(X > 0.0, DY, DY * call("exp", X / Setting("alpha")))}
    settings: ClassVar = {"alpha": 1.0}
    trials = ({"alpha": 0.7},)
