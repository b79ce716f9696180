"""HardSigmoid: Y = alpha X + beta between 0 and 1."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.tree import Setting, least, most
from deployer.operators.declared import Pointwise, X, declare


@declare
class HardSigmoid(Pointwise):
    """Elementwise; on the bounds the slope is 0, as PyTorch's."""

    name = "HardSigmoid"
    versions = (6, 22)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = most(0.0, least(1.0, Setting("alpha") * X + Setting("beta")))
    settings: ClassVar = {"alpha": 0.2, "beta": 0.5}
    kinks: ClassVar = {"x": ((0.0 - Setting("beta")) / Setting("alpha"), (1.0 - Setting("beta")) / Setting("alpha"))}
    trials = ({"alpha": 0.6, "beta": 0.3},)
    spread = 3.0
