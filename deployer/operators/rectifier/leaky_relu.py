"""LeakyRelu: Y = X where X > 0, else alpha X."""

from typing import ClassVar

from deployer.core.forms import CONSUMED, Rule
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import Setting, choose
from deployer.operators.declared import Pointwise, X, declare


@declare
class LeakyRelu(Pointwise):
    """Elementwise; at 0 the slope is alpha, as PyTorch's."""

    name = "LeakyRelu"
    versions = (6, 16)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    formula = choose(X > 0.0, X, Setting("alpha") * X)
    settings: ClassVar = {"alpha": 0.01}
    kinks: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.3},)
