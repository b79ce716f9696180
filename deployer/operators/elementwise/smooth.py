"""Smooth activations: sigmoid, tanh, softplus and functions built on them."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, register, registry
from deployer.core.signatures import CONSUMED, Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.expressions.formula import Attr, Input
from deployer.expressions.tree import call, replaced
from deployer.operators.base.elementwise_dsl import DY, Pointwise, X, derived, elementwise
from deployer.operators.base.operands import floats
from deployer.operators.elementwise.arithmetic import Mul


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


def _swish_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where X is multiplied by its own sigmoid."""
    for other in near:
        if other.op == Sigmoid.name and set(node.inputs) == {*other.inputs, *other.outputs} and not node.attrs:
            return Node(node.name, Swish.name, other.inputs, node.outputs), [other]
    return None


@elementwise
class Swish(Pointwise):
    """Y = X / (1 + e^(-alpha X)). Elementwise."""

    name = "Swish"
    file = FileSpec(versions=(24,))
    fusion = Fusion(multi_output_of=Mul.name, joint=_swish_joint)
    formula = X * call("sigmoid", Attr("alpha") * X)
    defaults: ClassVar = {"alpha": 1.0}
    trials = ({"alpha": 1.7},)


def _gate_grad_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where what arrives is a product of two tensors of X's shape."""
    for other in near:
        if other.op == Mul.name and other.outputs == node.inputs[:1] and not other.attrs:
            inputs = (*other.inputs, *node.inputs[1:])
            if len({types[name].shape for name in inputs}) == 1:
                return Node(node.name, SwishGateGrad.name, inputs, node.outputs, node.attrs), [other]
    return None


SWISH_GRAD = derived(Swish, X)


@elementwise
class SwishGateGrad(Pointwise):
    """The gradient of X under Swish where the result was multiplied by U: SwishGrad of dY U. Elementwise."""

    name = "SwishGateGrad"
    fusion = Fusion(multi_output_of=SWISH_GRAD.name, joint=_gate_grad_joint)
    operands = (DY, Input("u"), X)
    formula = replaced(SWISH_GRAD.formula, DY, DY * Input("u"))
    defaults: ClassVar = {"alpha": 1.0}
    no_gradient = "it belongs to a backward pass"
    result = "dx"


def _gate_grads_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where what arrives is multiplied by Swish of X, too: that is the gradient of U."""
    dy, _, x = node.inputs
    alike = [n for n in near if n.op == Swish.name and n.inputs == (x,) and Swish.values(n) == Swish.values(node)]
    products = [pair for n in alike for pair in ((n.outputs[0], dy), (dy, n.outputs[0]))]
    for other in near:
        if other.op == Mul.name and not other.attrs and other.inputs in products:
            outputs = (*node.outputs, *other.outputs)
            return Node(node.name, SwishGateGrads.name, node.inputs, outputs, node.attrs), [other]
    return None


@elementwise
class SwishGateGrads(SwishGateGrad):
    """The gradients of X and of U under the product of Swish of X and U. Elementwise.

    The second one computes Swish again from the same exponential, so that nothing keeps it until then.
    """

    name = "SwishGateGrads"
    fusion = Fusion(multi_output_of=SwishGateGrad.name, joint=_gate_grads_joint)
    further: ClassVar = {"du": DY * Swish.formula}


def _product_joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """Both, where Swish of X is multiplied by another tensor of that shape."""
    for other in near:
        factors = [name for name in node.inputs if name not in other.outputs]
        if other.op == Swish.name and len(factors) == 1 and not node.attrs:
            inputs = (*other.inputs, *factors)
            if len({types[name].shape for name in inputs}) == 1:
                return Node(node.name, SwishProduct.name, inputs, node.outputs, other.attrs), [other]
    return None


@elementwise
class SwishProduct(Pointwise):
    """Y = Swish(X) U, the gated unit of transformers. Elementwise.

    Its name is behind that of the gradients, after which no other node may read Swish: joint nodes come by their names.
    """

    name = "SwishProduct"
    fusion = Fusion(multi_output_of=Mul.name, joint=_product_joint)
    operands = (X, Input("u"))
    formula = Swish.formula * Input("u")
    defaults: ClassVar = {"alpha": 1.0}
    no_gradient = "it is a step that fusion makes"


@elementwise
class Tanh(Pointwise):
    """The hyperbolic tangent. Elementwise."""

    name = "Tanh"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("tanh", X)
