"""IntegerMod: the remainder of A by B, with the sign of A where `fmod` is 1, else with that of B."""

from typing import ClassVar

from deployer.formulas.tree import Setting, call
from deployer.operators.declared import INTEGERS, Spread, declare


@declare
class IntegerMod(Spread):
    """Elementwise, over integers of 32 bits; 0 where B is."""

    name = "IntegerMod"
    operands = INTEGERS
    formula = call("whole_choose", Setting("fmod") > 0.0, call("rest", *INTEGERS), call("modulo", *INTEGERS))
    settings: ClassVar = {"fmod": 0.0}
    trials = ({"fmod": 1},)
    no_gradient = "integers have none"
