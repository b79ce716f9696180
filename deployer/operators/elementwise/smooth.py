"""Smooth activations: sigmoid, tanh, softplus and functions built on them."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, register, registry
from deployer.core.signatures import CONSUMED, Signature
from deployer.core.traits.file import FileSpec
from deployer.expressions.formula import Attr, Input
from deployer.expressions.tree import call
from deployer.operators.base.elementwise_dsl import DY, Pointwise, X, elementwise
from deployer.operators.base.operands import floats


@elementwise
class Expm1(Pointwise):
    """Y = e^X - 1, without the loss of digits near zero. Elementwise."""

    name = "Expm1"
    file = FileSpec(custom=Signature((1, 1), (1, 1)))
    formula = call("expm1", X)


TWICE_SLOPE = 2 * math.sqrt(2 / math.pi)
CUBE = 0.044715


@elementwise
class GeluTanh(Pointwise):
    """Gelu by ONNX's approximation with tanh, as X / (1 + e^-2u), which is the same and keeps small results.

    Elementwise; a Gelu with `approximate` "tanh" is lowered to it.
    """

    name = "GeluTanh"
    formula = X * call("sigmoid", X * (TWICE_SLOPE + (TWICE_SLOPE * CUBE) * (X * X)))


@elementwise
class Log1p(Pointwise):
    """Y = ln(1 + X), without the loss of digits near zero. Elementwise."""

    name = "Log1p"
    file = FileSpec(custom=Signature((1, 1), (1, 1)))
    formula = call("log1p", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers above -1."""
        return np.asarray(generator.uniform(-0.875, 4.0, shape), np.float32)


@elementwise
class Mish(Pointwise):
    """Y = X tanh(ln(1 + e^X)). Elementwise."""

    name = "Mish"
    file = FileSpec(versions=(18, 22))
    formula = X * call("tanh", call("softplus", X))
    spread = 4.0


ALPHA = 1.702
"""Default of a node without the attribute."""


class Quick(Operator):
    """An operator that is `of` with alpha from the node, or ALPHA."""

    composite = True
    of: ClassVar[str]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return registry()[self.of].infer(self._plain(node), floats(node, inputs, len(node.inputs)))

    def _plain(self, node: Node) -> Node:
        attrs: dict[str, AttrValue] = {"alpha": node.attr_float("alpha", ALPHA)}
        return Node(node.name, self.of, node.inputs, node.outputs, attrs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of the other operator."""
        return registry()[self.of].reference(self._plain(node), inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The other operator."""
        return [self._plain(node)]


@register
class QuickGelu(Quick):
    """Y = X / (1 + e^(-alpha X)), ONNX Runtime's name of Swish with another default of alpha. Elementwise."""

    name = "QuickGelu"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {"alpha": "FLOAT"}))
    of = "Swish"


@register
class QuickGeluGrad(Quick):
    """The gradient of X under QuickGelu. Elementwise over dY and X."""

    name = "QuickGeluGrad"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {"alpha": "FLOAT"}))
    of = "SwishGrad"


@elementwise
class Sigmoid(Pointwise):
    """Y = 1 / (1 + e^-X). Elementwise."""

    name = "Sigmoid"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("sigmoid", X)
    spread = 4.0


@elementwise
class Softplus(Pointwise):
    """Y = ln(1 + e^X). Elementwise."""

    name = "Softplus"
    file = FileSpec(versions=(1, 22))
    formula = call("softplus", X)
    spread = 4.0


@elementwise
class Softsign(Pointwise):
    """Y = X / (1 + |X|). Elementwise."""

    name = "Softsign"
    file = FileSpec(versions=(1, 22))
    formula = X / (1.0 + call("abs", X))
    derivatives: ClassVar = {"x": DY / ((1.0 + call("abs", X)) * (1.0 + call("abs", X)))}


@elementwise
class Swish(Pointwise):
    """Y = X / (1 + e^(-alpha X)). Elementwise."""

    name = "Swish"
    file = FileSpec(versions=(24,))
    formula = X * call("sigmoid", Attr("alpha") * X)
    defaults: ClassVar = {"alpha": 1.0}
    trials = ({"alpha": 1.7},)


@elementwise
class Tanh(Pointwise):
    """The hyperbolic tangent. Elementwise."""

    name = "Tanh"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("tanh", X)
