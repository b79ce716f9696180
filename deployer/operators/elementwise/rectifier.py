"""Rectifiers and other activations that are linear in pieces."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core import ir
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import mismatch
from deployer.core.signatures import CONSUMED, without
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Training
from deployer.expressions.derivative import ZERO
from deployer.expressions.formula import Attr, Input, choose, maximum, minimum
from deployer.expressions.tree import Number, call
from deployer.operators.base.elementwise_dsl import DY, BroadcastElementwise, Pointwise, X, elementwise
from deployer.operators.base.operands import operands


@elementwise
class Celu(Pointwise):
    """Y = X where X > 0, else alpha (e^(X / alpha) - 1). Elementwise; the slope has no jump."""

    name = "Celu"
    file = FileSpec(versions=(12, 28))
    formula = choose(X > 0.0, X, Attr("alpha") * call("expm1", X / Attr("alpha")))
    derivatives: ClassVar = {"x": choose(X > 0.0, DY, DY * call("exp", X / Attr("alpha")))}
    defaults: ClassVar = {"alpha": 1.0}
    trials = ({"alpha": 0.7},)


@elementwise
class Elu(Pointwise):
    """Y = X where X > 0, else alpha (e^X - 1). Elementwise."""

    name = "Elu"
    file = FileSpec(versions=(6, 22), older={1: CONSUMED})
    formula = choose(X > 0.0, X, Attr("alpha") * call("expm1", X))
    defaults: ClassVar = {"alpha": 1.0}
    non_differentiable: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.7},)


@elementwise
class HardSigmoid(Pointwise):
    """Y = alpha X + beta between 0 and 1. Elementwise; on the bounds the slope is 0, as PyTorch's."""

    name = "HardSigmoid"
    file = FileSpec(versions=(6, 22), older={1: CONSUMED})
    formula = maximum(0.0, minimum(1.0, Attr("alpha") * X + Attr("beta")))
    defaults: ClassVar = {"alpha": 0.2, "beta": 0.5}
    non_differentiable: ClassVar = {"x": ((0.0 - Attr("beta")) / Attr("alpha"), (1.0 - Attr("beta")) / Attr("alpha"))}
    trials = ({"alpha": 0.6, "beta": 0.3},)
    spread = 3.0


@elementwise
class HardSwish(Pointwise):
    """Y = X times X / 6 + 1 / 2 between 0 and 1. Elementwise."""

    name = "HardSwish"
    file = FileSpec(versions=(14, 22))
    formula = X * maximum(0.0, minimum(1.0, X * (1 / 6) + 0.5))
    non_differentiable: ClassVar = {"x": (Number(-3.0), Number(3.0))}
    spread = 3.0


@elementwise
class LeakyRelu(Pointwise):
    """Y = X where X > 0, else alpha X. Elementwise; at 0 the slope is alpha, as PyTorch's."""

    name = "LeakyRelu"
    file = FileSpec(versions=(6, 16), older={1: CONSUMED})
    formula = choose(X > 0.0, X, Attr("alpha") * X)
    defaults: ClassVar = {"alpha": 0.01}
    non_differentiable: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.3},)


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


@elementwise
class PRelu(BroadcastElementwise):
    """Y = X where X >= 0, else X times a slope, which broadcasts to X.

    Elementwise; at 0 the gradient of X is that of the other side, as PyTorch's.
    """

    name = "PRelu"
    training = Training(learned={1: ir.SLOPE})
    file = FileSpec(versions=(7, 9, 16), older={1: _by_channel, 6: _by_channel})
    operands = (X, SLOPE)
    formula = choose(X < 0.0, X * SLOPE, X)
    derivatives: ClassVar = {"x": choose(X > 0.0, DY, DY * SLOPE)}
    non_differentiable: ClassVar = {"x": (ZERO,)}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        (y,) = super().infer(node, inputs)
        if inputs[0] != y:
            raise mismatch(node, "the slope does not broadcast to X", inputs)
        return (y,)


_ROUGH: dict[str, AttrValue] = {"alpha": 1.6732, "gamma": 1.0507}


def _rough(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the same numbers to four digits where the node has none."""
    current = without(node, "consumed_inputs")
    return [replace(current, attrs=_ROUGH | current.attrs)]


@elementwise
class Selu(Pointwise):
    """Y = gamma X where X > 0, else gamma alpha (e^X - 1). Elementwise."""

    name = "Selu"
    file = FileSpec(versions=(6, 22), older={1: _rough})
    formula = Attr("gamma") * choose(X > 0.0, X, Attr("alpha") * call("expm1", X))
    defaults: ClassVar = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
    non_differentiable: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.7, "gamma": 1.5},)


LIMIT, BIAS = Attr("lambd"), Attr("bias")


@elementwise
class Shrink(Pointwise):
    """X closer to zero by a bias where it is beyond lambd on either side, and zero between. Elementwise."""

    name = "Shrink"
    file = FileSpec(versions=(9,))
    formula = choose(X < -LIMIT, X + BIAS, choose(X > LIMIT, X - BIAS, 0.0))
    defaults: ClassVar = {"lambd": 0.5, "bias": 0.0}
    non_differentiable: ClassVar = {"x": (-LIMIT, LIMIT)}
    trials = ({"lambd": 0.25, "bias": 0.5},)


@elementwise
class ThresholdedRelu(Pointwise):
    """Y = X where X > alpha, else 0. Elementwise."""

    name = "ThresholdedRelu"
    file = FileSpec(versions=(10, 22))
    formula = choose(Attr("alpha") < X, X, 0.0)
    defaults: ClassVar = {"alpha": 1.0}
    non_differentiable: ClassVar = {"x": (Attr("alpha"),)}
    trials = ({"alpha": -0.25},)
