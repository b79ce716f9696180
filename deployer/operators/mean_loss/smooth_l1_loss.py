"""SmoothL1Loss: mean(s(pred - target)), s(d) = d^2 / (2 beta) below beta, and |d| - beta / 2 from there on.

Girshick, Fast R-CNN, 2015, for beta 1. It is HuberLoss with delta = beta, divided by beta.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.declarations import Loss, Setting
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.arithmetic.mul import Mul
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.mean_loss.huber_loss import DELTA, SCALE, HuberLoss
from deployer.operators.mean_loss.terms import SHAPES, check_settings

BETA = Setting("beta", "distance below which the loss is a square", 1.0, ends="()")


@register
class SmoothL1Loss(Operator):
    """A square near the target, the distance far from it; attribute `beta`."""

    name = "SmoothL1Loss"
    domain = ""
    custom = Form((2, 2), (1, 1), {BETA.place: BETA.kind})
    loss = Loss("smooth_l1", "target", lambda output: output, "any float output", settings=(BETA,))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar."""
        pred, target = floats(node, inputs, 2)
        if pred != target:
            raise mismatch(node, "operands differ in type", inputs)
        check_settings(node, (BETA,))
        return (TensorType("float32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean of s(pred - target)."""
        pred, target = arrays(inputs, 2)
        beta, half = pred.dtype.type(BETA.of(node)), pred.dtype.type(1 / 2)
        d = np.abs(pred - target)
        return (np.asarray(np.mean(np.where(d < beta, half * d * d / beta, d - half * beta)), dtype=pred.dtype),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Huber's."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            out = b.temp("slope") if douts[0] else b.grad(index)
            b.emit(HuberLoss.grad, (node.inputs[index], node.inputs[1 - index]), (out,), **_attrs(node))
            if douts[0]:
                b.emit(Mul.name, (out, douts[0]), (b.grad(index),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """HuberLoss, scaled."""
        return [Node(node.name, HuberLoss.name, node.inputs, node.outputs, _attrs(node))]

    def samples(self) -> Iterator[Sample]:
        """Several shapes, and another beta."""
        r = rng(56)
        for label, shape in SHAPES:
            yield Sample(label, (normal(r, *shape), normal(r, *shape)), onnx=False)
        yield Sample("given", (normal(r, 3, 13), normal(r, 3, 13)), {"beta": 0.375}, onnx=False)


def _attrs(node: Node) -> dict[str, AttrValue]:
    beta = BETA.of(node)
    return {DELTA.place: beta, SCALE.place: 1 / beta}
