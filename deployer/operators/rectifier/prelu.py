"""PRelu: Y = X where X >= 0, else X times a slope, which broadcasts to X."""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.ir import Node, TensorType
from deployer.core.operator import mismatch
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import Input, choose
from deployer.operators.declared import DY, Spread, X, declare

SLOPE = Input("slope")


@declare
class PRelu(Spread):
    """Elementwise; at 0 the gradient of X is that of the other side, as PyTorch's."""

    name = "PRelu"
    versions = (7, 9, 16)
    operands = (X, SLOPE)
    formula = choose(X < 0.0, X * SLOPE, X)
    slopes: ClassVar = {"x": choose(X > 0.0, DY, DY * SLOPE)}
    kinks: ClassVar = {"x": (ZERO,)}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        (y,) = super().infer(node, inputs)
        if inputs[0] != y:
            raise mismatch(node, "the slope does not broadcast to X", inputs)
        return (y,)
