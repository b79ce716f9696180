"""Relu, Clip and Gelu with their gradients, and the fused forms that ONNX Runtime writes."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import CONSUMED, Signature, without
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Epilogue, Fusion
from deployer.core.traits.numerics import DecisionBoundaries, Numerics
from deployer.operators.base.elementwise import BOUNDS, Clipping, Flat, bounds
from deployer.operators.base.operands import Construction, arrays, check_scalar, floats, operands


class Joined(Operator):
    """X and a bias of its last axis, which may be absent if `optional`; `wide` inputs have X's shape.

    A subclass says of which function of X + bias it is, or of whose gradient.
    """

    composite = True
    wide: ClassVar[int] = 1
    optional: ClassVar[bool] = False

    @abstractmethod
    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """The operator of the sum, with its attributes."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        biased = self._is_biased(node)
        *wide, bias = types = floats(node, inputs, self.wide + biased)
        x = types[self.wide - 1]
        if any(kind != x for kind in (wide if biased else types)):
            raise mismatch(node, "its operands differ in shape", inputs)
        if biased and bias.shape != x.shape[-1:]:
            raise mismatch(node, f"its bias is {bias}, not one element for each of X's last axis", inputs)
        return (x,)

    def _is_biased(self, node: Node) -> bool:
        return not self.optional or any(node.inputs[self.wide :])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The function of X + bias."""
        op, attrs = self.function(node)
        *before, x = (value for value in inputs[: self.wide] if value is not None)
        bias = inputs[self.wide] if self._is_biased(node) else None
        total = x if bias is None else np.asarray(x + bias)
        return registry()[op].reference(Node(node.name, op, (), node.outputs, attrs), [*before, total])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sum, where there is one, and the function."""
        graph = Construction(node.name)
        *before, x = node.inputs[: self.wide]
        total = graph.emit("Add", (x, node.inputs[self.wide])) if self._is_biased(node) else x
        op, attrs = self.function(node)
        graph.emit(op, (*before, total), node.outputs[0], **attrs)
        return graph.nodes


def joined_signature(wide: int, optional: bool = False) -> Signature:
    """The form of a function of so many wide operands and a bias."""
    return Signature((wide if optional else wide + 1, wide + 1), (1, 1))


@register
class BiasFastGeluGradDX(Joined):
    """dY, X and the bias."""

    name = "BiasFastGeluGrad_dX"
    file = FileSpec(custom=joined_signature(2))
    wide = 2

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanhGrad."""
        return "GeluTanhGrad", {}


@register
class BiasGelu(Joined):
    """Gelu of X + bias. ONNX Runtime's, of a dense layer's sums and their bias."""

    name = "BiasGelu"
    file = FileSpec(custom=joined_signature(1))

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """Gelu."""
        return "Gelu", {}


@register
class BiasGeluGradDX(Joined):
    """dY, X and the bias."""

    name = "BiasGeluGrad_dX"
    file = FileSpec(custom=joined_signature(2))
    wide = 2

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluGrad."""
        return "GeluGrad", {}


_FURTHEST: dict[str, AttrValue] = {name: float(getattr(np.finfo(np.float32), name)) for name in ("min", "max")}


def _bounded(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 the bounds are attributes; an absent bound is the smallest or the largest finite float32."""
    current = without(node, "consumed_inputs")
    return [replace(current, attrs=_FURTHEST | current.attrs)]


def _clip_decision_boundaries(node: Node, inputs: Sequence[Array | None]) -> tuple[DecisionBoundaries, ...]:
    """Each element decides at either bound whether its gradient passes."""
    flat = arrays(inputs, 1)[0].reshape(-1)
    rows = []
    for bound, outside in zip(map(float, bounds(node)), (-np.inf, np.inf), strict=True):
        inside = flat >= bound if outside < 0 else flat <= bound
        flipped = np.where(inside, np.nextafter(bound, outside), bound)
        rows.append(DecisionBoundaries(0, np.arange(flat.size), np.abs(flat - bound), flipped))
    return tuple(rows)


def _is_static(position: int, value: Array | None) -> bool:
    """Whether the bound is constant; other bounds become operands of Max and Min."""
    return value is not None


@register
class Clip(Clipping):
    """X kept between a minimum and a maximum.

    `min` and `max` are inputs or attributes, either may be absent; where they cross, all becomes `max`.
    """

    name = "Clip"
    kernel = Kernel("clip_f32", (("x", "float32", False), ("y", "float32", True)), BOUNDS)
    file = FileSpec(
        versions=(11, 12, 13),
        older={1: _bounded, 6: _bounded},
        static_inputs={1: "min", 2: "max"},
        unbounded=("min", "max"),
        is_static=_is_static,
    )
    numerics = Numerics(decision_boundaries=_clip_decision_boundaries)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Max and Min where a bound is not constant, and for integers."""
        names = (*node.inputs, "", "")[: len(BOUNDS)]
        if not any(names[1:]) and operands(node, inputs, 1)[0].dtype == "float32":
            return None
        nodes, result = [], names[0]
        for name, bound, op in (("min", names[1], "Max"), ("max", names[2], "Min")):
            if name in node.attrs:
                bound = f"{node.name}/{name}"
                value = node.attrs[name]
                one = value[0] if isinstance(value, tuple) else value
                kind = "value_float" if isinstance(one, float) else "value_int"
                nodes.append(Node(bound, "Constant", (), (bound,), {kind: one}))
            if bound:
                nodes.append(Node(f"{node.name}/{op}", op, (result, bound), (f"{node.name}/{op}",)))
                result = f"{node.name}/{op}"
        return [*nodes, Node(node.name, "Identity", (result,), node.outputs)]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; a bound at run time is a scalar, or a list of one where X is no scalar."""
        bounds(node)
        x = operands(node, inputs, 1)[0]
        for name in ("min", "max"):
            check_scalar(node, name, x)
        for name, bound in zip(("min", "max"), inputs[1:], strict=False):
            if bound and bound.shape not in ((), (1,) if x.shape else ()):
                raise unsupported(node, f"{name} is {bound}", "a scalar, or Min and Max, which broadcast")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """min(max(X, low), high); NaN stays NaN."""
        x = arrays(inputs, 1)[0]
        _, *limits = (*inputs, None, None)[: len(BOUNDS)]
        low, high = (
            np.asarray(bound if limit is None else limit) for bound, limit in zip(bounds(node), limits, strict=True)
        )
        return (np.minimum(np.maximum(x, low), high).astype(x.dtype),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY where min <= X <= max."""
        if any(node.inputs[1:]):
            raise NotDifferentiable(f"node {node.name!r} (Clip) has no gradient: its bounds are not constant")
        if b.needs_grad(0):
            values = dict(zip(("min", "max"), map(float, bounds(node)), strict=True))
            limits = {name: value for name, value in values.items() if name in node.attrs}
            b.emit("ClipGrad", (douts[0], node.inputs[0]), (b.grad(0),), **limits)


@register
class ClipGrad(Clipping):
    """dX = dY where min <= X <= max, else 0.

    Takes dY and X. As in PyTorch the gradient passes where X equals a bound, and does not pass where X is NaN.
    """

    name = "ClipGrad"
    kernel = Kernel(
        "clip_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=BOUNDS,
    )
    no_gradient = "it belongs to a backward pass"
    file = FileSpec(custom=Signature((2, 2), (1, 1), {"min": "FLOAT", "max": "FLOAT"}), unbounded=("min", "max"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY where X lies between the bounds."""
        dy, x = arrays(inputs, 2)
        low, high = bounds(node)
        return (np.where((x >= low) & (x <= high), dy, dy.dtype.type(0)),)


@register
class FastGelu(Joined):
    """Gelu by its approximation with tanh, of X or of X + bias. ONNX Runtime's."""

    name = "FastGelu"
    file = FileSpec(custom=joined_signature(1, optional=True))
    optional = True

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanh."""
        return "GeluTanh", {}


@register
class FastGeluGrad(Joined):
    """The gradient of X under FastGelu. dY, X and, where there is one, the bias."""

    name = "FastGeluGrad"
    file = FileSpec(custom=joined_signature(2, optional=True))
    wide = 2
    optional = True

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanhGrad."""
        return "GeluTanhGrad", {}


@register
class Gelu(Flat):
    """Y = X Phi(X), Phi being the normal distribution, by erf or by an approximation with tanh.

    Elementwise; `approximate` is "none" or "tanh".
    """

    name = "Gelu"
    file = FileSpec(versions=(20,), custom=Signature((1, 1), (1, 1)))
    kernel = Kernel("gelu_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if node.attr_str("approximate", "none") not in ("none", "tanh"):
            raise unsupported(node, f"approximate is {node.attrs['approximate']!r}", "'none' or 'tanh'")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X (1 + erf(X / sqrt(2))) / 2, or its approximation."""
        if _approximate(node):
            return registry()[_TANH].reference(_plain(node), inputs)
        x = arrays(inputs, 1)[0]
        return (np.asarray(x * distribution(x)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GeluGrad of X, or the gradient of the approximation."""
        if _approximate(node):
            registry()[_TANH].gradient(_plain(node), douts, b)
        elif b.needs_grad(0):
            b.emit("GeluGrad", (douts[0], node.inputs[0]), (b.grad(0),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The approximation is an operator of its own."""
        return [_plain(node)] if _approximate(node) else None

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An error function per element."""
        return Work(macs=0, elements=tile["n"] * model.transcendental_elements, parallel=tile["n"])


_TANH = "GeluTanh"
"""The operator of the approximation."""


def _approximate(node: Node) -> bool:
    return node.attr_str("approximate", "none") == "tanh"


def _plain(node: Node) -> Node:
    """The node as one of the approximation's operator."""
    return replace(node, op=_TANH, attrs={})


def distribution(x: Array) -> Array:
    """The normal distribution in the dtype of x, from float64."""
    scaled = (x / np.sqrt(2.0)).reshape(-1)
    erf = np.fromiter(map(math.erf, scaled.tolist()), np.float64, scaled.size).reshape(x.shape)
    return np.asarray((1 + erf) / 2, x.dtype)


@register
class GeluGrad(Flat):
    """dX = dY (Phi(X) + X phi(X)), with the normal distribution and its density. Elementwise over dY and X."""

    name = "GeluGrad"
    file = FileSpec(custom=Signature((2, 2), (1, 1)), domain="")
    kernel = Kernel(
        "gelu_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=(("n", "u32"),),
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        floats(node, inputs, 2)
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY (Phi(X) + X phi(X))."""
        dy, x = arrays(inputs, 2)
        density = np.exp(-np.square(x) / 2) / x.dtype.type(np.sqrt(2 * np.pi))
        return (np.asarray(dy * (distribution(x) + x * density)),)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An error function and an exponential per element."""
        return Work(macs=0, elements=2 * tile["n"] * model.transcendental_elements, parallel=tile["n"])


RELU_FINISH = Epilogue(scalar="relu")


def _relu_decision_boundaries(node: Node, inputs: Sequence[Array | None]) -> tuple[DecisionBoundaries, ...]:
    """Each element decides whether its gradient passes."""
    x = inputs[0]
    assert x is not None
    flat = x.reshape(-1)
    least = np.finfo(np.float32).tiny
    return (DecisionBoundaries(0, np.arange(flat.size), np.abs(flat), np.where(flat > 0, 0.0, least)),)


@register
class Relu(Operator):
    """Y = max(X, 0). Elementwise; NaN stays NaN."""

    name = "Relu"
    file = FileSpec(versions=(6, 13, 14), older={1: CONSUMED})
    fusion = Fusion(epilogue=RELU_FINISH)
    kernel = Kernel("relu_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))
    numerics = Numerics(decision_boundaries=_relu_decision_boundaries)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y has the type of X."""
        if inputs[0] is None:
            raise mismatch(node, "X is absent", inputs)
        return (inputs[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """max(X, 0)."""
        x = inputs[0]
        assert x is not None
        return (np.maximum(x, x.dtype.type(0)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY where Y > 0."""
        b.emit("ReluGrad", (douts[0], node.outputs[0]), (b.grad(0),))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.outputs[0]].size
        x = Operand("x", node.inputs[0], "in", (size,), (At("n"),))
        y = Operand("y", node.outputs[0], "out", (size,), (At("n"),))
        return Access((Dim("n", size),), (x, y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        return Work(macs=0, elements=tile["n"], parallel=tile["n"])


RELU_GRAD_FINISH = Epilogue(pointer="gate", operand=1)


@register
class ReluGrad(Flat):
    """dX = dY where Y > 0, else 0; Y is the output of Relu. Elementwise over dY and Y."""

    name = "ReluGrad"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    fusion = Fusion(epilogue=RELU_GRAD_FINISH)
    kernel = Kernel(
        "relu_grad_f32",
        pointers=(("dy", "float32", False), ("y", "float32", False), ("dx", "float32", True)),
        scalars=(("n", "u32"),),
    )
    no_gradient = "it belongs to a backward pass"

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY where Y > 0."""
        dy, y = arrays(inputs, 2)
        return (np.where(y > 0, dy, dy.dtype.type(0)),)
