"""ThresholdedRelu: Y = X where X > alpha, else 0."""

from typing import ClassVar

from deployer.formulas.tree import Setting, choose
from deployer.operators.declared import Pointwise, X, declare


@declare
class ThresholdedRelu(Pointwise):
    """Elementwise."""

    name = "ThresholdedRelu"
    versions = (10, 22)
    formula = choose(Setting("alpha") < X, X, 0.0)
    settings: ClassVar = {"alpha": 1.0}
    kinks: ClassVar = {"x": (Setting("alpha"),)}
    trials = ({"alpha": -0.25},)
