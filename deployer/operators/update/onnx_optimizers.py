"""Optimizers of ONNX's training preview domain."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import Construction, arrays, floats

DOMAIN = "ai.onnx.preview.training"
MAX_OPERANDS = 1 << 16
"""The most inputs and outputs of a node."""
SHARED = ("R", "T")
"""The rate, and the number of updates before this one; after them all tensors, then all gradients, then the others."""


def preview_signature(group: Sequence[str], required: Sequence[str] = (), **attributes: str) -> Signature:
    """The form of a node over groups of tensors: a tensor, its gradient, and what is kept of it."""
    inputs, outputs = len(SHARED) + len(group), len(group) - 1
    return Signature((inputs, MAX_OPERANDS), (outputs, MAX_OPERANDS), attributes, frozenset(required))


class TensorSums(Construction):
    """The nodes of an update."""

    def of(self, op: str, *operands: str | float, output: str = "", **attrs: AttrValue) -> str:
        """Append a node over values and numbers; returns its output."""
        names = [x if isinstance(x, str) else self.number(x) for x in operands]
        return self.emit(op, names, output, **attrs)

    def weighted(self, share: float, x: str, other: float, y: str, output: str = "") -> str:
        """share x + other y."""
        return self.of("Add", self.of("Mul", x, share), self.of("Mul", y, other), output=output)


class TensorUpdates(Operator):
    """R, T, tensors, gradients and states to the new tensors and the new states; each tensor by itself."""

    composite = True
    group: ClassVar[tuple[str, ...]]
    """X, G and what is kept of a tensor, by ONNX's names."""
    given: ClassVar[Mapping[str, AttrValue]]
    """Attributes of samples."""

    def groups(self, node: Node, names: Sequence[str]) -> list[list[str]]:
        """Inputs or outputs of each tensor; `names` are those behind the shared ones."""
        count = max(len(node.inputs) - len(SHARED), 0) // len(self.group)
        return [list(names[i::count]) for i in range(count)]

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor."""
        rate, count, *tensors = inputs
        if len(tensors) % len(self.group):
            raise mismatch(node, f"it has {len(tensors)} tensors, no multiple of {', '.join(self.group)}", inputs)
        if rate is None or rate.dtype != "float32" or rate.size != 1:
            raise mismatch(node, "its rate R is not a float32 number", inputs)
        if count is None or count.dtype != "int32" or count.size != 1:
            raise mismatch(node, "its count T is not an integer", inputs)
        present = floats(node, tensors, len(tensors))
        number = len(present) // len(self.group)
        for place in range(number):
            if len({*present[place::number]}) > 1:
                raise mismatch(node, f"{', '.join(self.group)} number {place + 1} differ in type", inputs)
        return tuple(present[:number]) + tuple(present[2 * number :])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Each tensor by itself."""
        rate, count, *tensors = arrays(inputs, len(inputs))
        number = len(tensors) // len(self.group)
        kind = tensors[0].dtype
        r, t = rate.reshape(()).astype(kind), int(count.reshape(()))
        results = [self.step(node, r, t, tensors[i::number]) for i in range(number)]
        return tuple(np.asarray(x, kind) for of_place in zip(*results, strict=True) for x in of_place)

    @abstractmethod
    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """The new tensor and what is kept of it."""

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The rate once, then each tensor."""
        sums = TensorSums(node.name)
        shared = [sums.of("Reshape", name, shape=()) for name in node.inputs[: len(SHARED)]]
        node = replace(node, inputs=(*shared, *node.inputs[len(SHARED) :]))
        rate = self.rate(node, sums)
        names = [*node.outputs, *[""] * (len(self.group) * len(node.inputs))]
        groups = self.groups(node, node.inputs[len(SHARED) :])
        for place, group in enumerate(groups):
            own = names[place : (len(self.group) - 1) * len(groups) : len(groups)]
            outputs = [name or f"{node.name}/{place}/{i}" for i, name in enumerate(own)]
            self.update(node, sums, rate, (*group, *outputs))
        return sums.nodes

    @abstractmethod
    def rate(self, node: Node, sums: TensorSums) -> tuple[str, ...]:
        """Append what is common to all tensors; its values, the first of which is the rate."""

    @abstractmethod
    def update(self, node: Node, sums: TensorSums, shared: Sequence[str], names: Sequence[str]) -> None:
        """Append the update of a tensor, from the names of its group to those of its results."""

    def regularized(self, node: Node, sums: TensorSums, x: str, g: str) -> str:
        """G + norm_coefficient X."""
        share = node.attr_float("norm_coefficient", 0.0)
        return sums.of("Add", sums.of("Mul", x, share), g) if share else g


EPSILON = 1e-6


@register
class OnnxAdagrad(TensorUpdates):
    """G has norm_coefficient X added."""

    name = f"{DOMAIN}.Adagrad"
    group = ("X", "G", "H")
    file = FileSpec(
        custom=preview_signature(group, norm_coefficient="FLOAT", decay_factor="FLOAT", epsilon="FLOAT"), domain=DOMAIN
    )
    given: ClassVar = {"norm_coefficient": 0.5, "decay_factor": 0.25, "epsilon": 0.125}

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X' and H'."""
        x, g, h = tensors
        kind = x.dtype.type
        g = g + kind(node.attr_float("norm_coefficient", 0.0)) * x
        h = h + g * g
        slowed = rate / (1 + kind(count) * kind(node.attr_float("decay_factor", 0.0)))
        return x - slowed * g / (np.sqrt(h) + kind(node.attr_float("epsilon", EPSILON))), h

    def rate(self, node: Node, sums: TensorSums) -> tuple[str, ...]:
        """R / (1 + decay_factor T)."""
        decay = node.attr_float("decay_factor", 0.0)
        if not decay:
            return node.inputs[:1]
        count = sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT)
        return (sums.of("Div", node.inputs[0], sums.of("Add", sums.of("Mul", count, decay), 1.0)),)

    def update(self, node: Node, sums: TensorSums, shared: Sequence[str], names: Sequence[str]) -> None:
        """The sum of squares, and the step by its root."""
        x, g, h, new_x, new_h = names
        g = self.regularized(node, sums, x, g)
        sums.of("Add", h, sums.of("Mul", g, g), output=new_h)
        root = sums.of("Add", sums.of("Sqrt", new_h), node.attr_float("epsilon", EPSILON))
        sums.of("Sub", x, sums.of("Div", sums.of("Mul", g, shared[0]), root), output=new_x)


ADAM_DEFAULTS = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}
"""Attributes with ONNX's defaults."""


@register
class OnnxAdam(TensorUpdates):
    """G has norm_coefficient X added."""

    name = f"{DOMAIN}.Adam"
    group = ("X", "G", "V", "H")
    file = FileSpec(custom=preview_signature(group, **dict.fromkeys(ADAM_DEFAULTS, "FLOAT")), domain=DOMAIN)
    given: ClassVar = dict(zip(ADAM_DEFAULTS, (0.5, 0.75, 0.25, 0.5, 0.125), strict=True))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor; alpha and beta are shares."""
        for name in ("alpha", "beta"):
            if not 0 <= _number(node, name) < 1:
                raise unsupported(node, f"{name} is {_number(node, name):g}", f"{name} from 0 to below 1")
        return super().infer(node, inputs)

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X', V' and H'."""
        x, g, v, h = tensors
        alpha, beta, epsilon, before, after = (x.dtype.type(_number(node, name)) for name in ADAM_DEFAULTS)
        g = g + before * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        if count > 0:
            first, second = (1 - _number(node, name) ** count for name in ("alpha", "beta"))
            rate = rate * x.dtype.type(math.sqrt(second) / first)
        return (1 - after) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h

    def rate(self, node: Node, sums: TensorSums) -> tuple[str, ...]:
        """R' where there was an update, else R."""
        count = sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT)
        made = sums.of("Max", count, 1.0)
        first, second = (_complement(sums, made, _number(node, name)) for name in ("alpha", "beta"))
        corrected = sums.of("Mul", node.inputs[0], sums.of("Div", sums.of("Sqrt", second), first))
        return (sums.of("Where", sums.of("Greater", count, 0.0), corrected, node.inputs[0]),)

    def update(self, node: Node, sums: TensorSums, shared: Sequence[str], names: Sequence[str]) -> None:
        """Both moments, and the step by them."""
        x, g, v, h, new_x, new_v, new_h = names
        alpha, beta, epsilon, _, after = (_number(node, name) for name in ADAM_DEFAULTS)
        g = self.regularized(node, sums, x, g)
        sums.weighted(alpha, v, 1 - alpha, g, new_v)
        sums.weighted(beta, h, 1 - beta, sums.of("Mul", g, g), new_h)
        root = sums.of("Add", sums.of("Sqrt", new_h), epsilon)
        step = sums.of("Div", sums.of("Mul", new_v, shared[0]), root)
        moved = sums.of("Sub", x, step, output="" if after else new_x)
        if after:
            sums.of("Mul", moved, 1 - after, output=new_x)


def _number(node: Node, name: str) -> float:
    return float(np.float32(node.attr_float(name, ADAM_DEFAULTS[name])))


def _complement(sums: TensorSums, count: str, share: float) -> str:
    """1 - share^T, as accurate for a share near 1: 2 t / (1 + t) with t = tanh(-T log(share) / 2)."""
    if not share:
        return sums.number(1.0)
    t = sums.of("Tanh", sums.of("Mul", count, -math.log(share) / 2))
    return sums.of("Div", sums.of("Mul", t, 2.0), sums.of("Add", t, 1.0))


MODES = ("standard", "nesterov")
MOMENTUM_ATTRIBUTES = ("alpha", "beta", "norm_coefficient")


@register
class Momentum(TensorUpdates):
    """G has norm_coefficient X added; beta is 1 in the first update."""

    name = f"{DOMAIN}.Momentum"
    group = ("X", "G", "V")
    file = FileSpec(
        domain=DOMAIN,
        custom=preview_signature(
            group, (*MOMENTUM_ATTRIBUTES, "mode"), **dict.fromkeys(MOMENTUM_ATTRIBUTES, "FLOAT"), mode="STRING"
        ),
    )
    given: ClassVar = {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25, "mode": "nesterov"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor."""
        if node.attr_str("mode", "") not in MODES:
            raise unsupported(node, f"its mode is {node.attr_str('mode', '')!r}", f"one of {', '.join(MODES)}")
        return super().infer(node, inputs)

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X' and V'."""
        x, g, v = tensors
        alpha, beta, share = (x.dtype.type(node.attr_float(name, 0.0)) for name in MOMENTUM_ATTRIBUTES)
        g = g + share * x
        v = alpha * v + (beta * g if count > 0 else g)
        return x - rate * (g + alpha * v if _leads(node) else v), v

    def rate(self, node: Node, sums: TensorSums) -> tuple[str, ...]:
        """R, and the share of the gradient, which is 1 in the first update."""
        begun = sums.of("Greater", sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT), 0.0)
        return node.inputs[0], sums.of("Where", begun, node.attr_float("beta", 0.0), 1.0)

    def update(self, node: Node, sums: TensorSums, shared: Sequence[str], names: Sequence[str]) -> None:
        """The momentum, and the step along it."""
        (x, g, v, new_x, new_v), alpha = names, node.attr_float("alpha", 0.0)
        g = self.regularized(node, sums, x, g)
        sums.of("Add", sums.of("Mul", v, alpha), sums.of("Mul", g, shared[1]), output=new_v)
        step = sums.of("Add", g, sums.of("Mul", new_v, alpha)) if _leads(node) else new_v
        sums.of("Sub", x, sums.of("Mul", step, shared[0]), output=new_x)


def _leads(node: Node) -> bool:
    """Whether the step is Nesterov's."""
    return node.attr_str("mode", "") == "nesterov"
