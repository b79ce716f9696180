"""Divided: X divided by a number that is known; Mean is lowered to it."""

from typing import ClassVar

from deployer.core.forms import Form
from deployer.formulas.tree import Setting
from deployer.operators.declared import Pointwise, X, declare


@declare
class Divided(Pointwise):
    """Elementwise."""

    name = "Divided"
    custom = Form((1, 1), (1, 1), {"by": "FLOAT"})
    formula = X / Setting("by")
    settings: ClassVar = {"by": 1.0}
    trials = ({"by": 3.0},)
