"""PRelu: Y = X where X >= 0, else X times a slope, which broadcasts to X."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core import ir
from deployer.core.forms import Rule, without
from deployer.core.ir import Node, TensorType
from deployer.core.operator import mismatch
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import Input, choose
from deployer.operators.declared import DY, Spread, X, declare
from deployer.operators.inputs import operands

SLOPE = Input("slope")


def _by_channel(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 the slope is one number, or one for each channel, of which it gets the axis."""
    x, slope = operands(node, types, 2)
    plain = without(node, "consumed_inputs")
    if slope.size == 1 and len(slope.shape) <= len(x.shape):
        return [plain]
    if len(x.shape) <= 1 or slope.shape != x.shape[1:2]:
        raise mismatch(node, "the slope is neither one number nor one for each channel", types)
    column = f"{node.name}/column"
    shape = (*slope.shape, *[1] * (len(x.shape) - 2))
    return [
        Node(column, "Reshape", node.inputs[1:2], (column,), {"shape": shape}),
        replace(plain, inputs=(node.inputs[0], column)),
    ]


@declare
class PRelu(Spread):
    """Elementwise; at 0 the gradient of X is that of the other side, as PyTorch's."""

    name = "PRelu"
    learned: ClassVar[dict[int, str]] = {1: ir.SLOPE}
    versions = (7, 9, 16)
    older: ClassVar[dict[int, Rule]] = {1: _by_channel, 6: _by_channel}
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
