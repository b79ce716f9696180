"""FloorMod: what is left of A by B with the sign of B: A - B floor(A / B)."""

from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.operator import Array
from deployer.formulas.tree import Input, call, choose
from deployer.operators.declared import A, B, Spread, declare

LEFT = call("remainder", A, B)
OTHER_SIGN = call("differ", LEFT < 0.0, B < 0.0)


@declare
class FloorMod(Spread):
    """Elementwise over floats: the remainder, and B more where its sign is not B's."""

    name = "FloorMod"
    custom = Form((2, 2), (1, 1))
    operands = (A, B)
    formula = choose(call("both", OTHER_SIGN, call("negation", call("equal", LEFT, 0.0))), LEFT + B, LEFT)
    kinks: ClassVar = {"a": (call("floor", A / B) * B, call("ceil", A / B) * B), "b": (A / call("round", A / B),)}

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Dividends on both sides of several divisors, which are at a distance from zero."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x * 3 if operand == A else x + np.copysign(np.float32(0.5), x), np.float32)
