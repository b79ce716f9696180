"""GeluTanh: Gelu by ONNX's approximation with tanh, as X / (1 + e^-2u), which is the same and keeps small results."""

import math

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare

TWICE_SLOPE = 2 * math.sqrt(2 / math.pi)
CUBE = 0.044715


@declare
class GeluTanh(Pointwise):
    """Elementwise; a Gelu with `approximate` "tanh" is lowered to it."""

    name = "GeluTanh"
    formula = X * call("sigmoid", X * (TWICE_SLOPE + (TWICE_SLOPE * CUBE) * (X * X)))
