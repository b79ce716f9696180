"""Log1p: Y = ln(1 + X), without the loss of digits near zero."""

import numpy as np

from deployer.core.forms import Form
from deployer.core.operator import Array
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Log1p(Pointwise):
    """Elementwise."""

    name = "Log1p"
    custom = Form((1, 1), (1, 1))
    formula = call("log1p", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers above -1."""
        return np.asarray(generator.uniform(-0.875, 4.0, shape), np.float32)
