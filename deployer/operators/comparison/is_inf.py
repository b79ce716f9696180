"""IsInf: whether X is an infinity, of either sign or of one."""

import math
from typing import ClassVar

import numpy as np

from deployer.core.operator import Array
from deployer.formulas.tree import Formula, Input, Setting, call
from deployer.operators.declared import Pointwise, X, declare


def _found(flag: str, infinity: float) -> Formula:
    return call("both", call("equal", X, infinity), call("less", 0.0, Setting(flag)))


@declare
class IsInf(Pointwise):
    """Elementwise; a truth."""

    name = "IsInf"
    versions = (10, 20)
    formula = call("either", _found("detect_negative", -math.inf), _found("detect_positive", math.inf))
    settings: ClassVar = {"detect_negative": 1.0, "detect_positive": 1.0}
    flags = ("detect_negative", "detect_positive")
    trials = ({"detect_negative": 0}, {"detect_positive": 0})
    no_gradient = "a truth has none"

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers, and infinities of both signs."""
        x = super().drawn(generator, operand, shape)
        return np.where(np.abs(x) > np.float32(1), np.copysign(np.float32(np.inf), x), x)
