"""Shrink: X closer to zero by a bias where it is beyond lambd on either side, and zero between."""

from typing import ClassVar

from deployer.formulas.tree import Setting, choose
from deployer.operators.declared import Pointwise, X, declare

LIMIT, BIAS = Setting("lambd"), Setting("bias")


@declare
class Shrink(Pointwise):
    """Elementwise."""

    name = "Shrink"
    versions = (9,)
    formula = choose(X < -LIMIT, X + BIAS, choose(X > LIMIT, X - BIAS, 0.0))
    settings: ClassVar = {"lambd": 0.5, "bias": 0.0}
    kinks: ClassVar = {"x": (-LIMIT, LIMIT)}
    trials = ({"lambd": 0.25, "bias": 0.5},)
