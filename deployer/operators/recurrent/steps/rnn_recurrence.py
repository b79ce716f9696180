"""RNNRecurrence: the steps of a plain recurrent layer in one direction, over inputs that W has multiplied already."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, GradientBuilder, register, unsupported
from deployer.operators.recurrent.steps.forward_steps import ForwardSteps
from deployer.operators.recurrent.steps.recurrence import optional_outputs, recurrence_kernel, state_or_zero, two_places

FUNCTIONS = ("Tanh", "Relu")
"""What the attribute `activation` may be, the usual one first."""


def is_relu(node: Node) -> bool:
    """Whether the activation is Relu; UnsupportedOperator where it is neither that nor Tanh."""
    name = node.attr_str("activation", FUNCTIONS[0])
    if name not in FUNCTIONS:
        raise unsupported(node, f"its activation is {name!r}", f"one of {', '.join(FUNCTIONS)}")
    return name != FUNCTIONS[0]


OUTPUTS = ("y", "last", "before", "state")


@register
class RNNRecurrence(ForwardSteps):
    """X, R[, h] to Y, the last h, h before each step, and the two places of h; h' = f(X + R h)."""

    name = "RNNRecurrence"
    custom = Form((2, 3), (4, 4), {"reverse": "INT", "activation": "STRING"})
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "h": "bh"},
        **{"y": "tbu", "last": "bh", "before": "tbu", "state": "pbh"},
    }
    kernel = recurrence_kernel("rnn_recurrence_f32", layout, OUTPUTS, "steps", "relu")
    needed = ("x", "r", "state")
    spared = optional_outputs(kernel, needed)
    saved = ("y", "before")
    states = ("h",)
    gates = stored = functions = 1
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = tuple({"activation": name} for name in FUNCTIONS)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each operand has the shape of its layout."""
        is_relu(node)
        return super().infer(node, inputs)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Which activation."""
        return {"relu": Const(int(is_relu(node)))}

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other."""
        x, r, h = self.padded(inputs)
        assert x is not None
        assert r is not None
        h = initial = state_or_zero(h, x, r.shape[1])
        y, before = np.empty_like(x), np.empty_like(x)
        for t in self.steps(node, len(x)):
            before[t], total = h, x[t] + h @ r.T
            y[t] = h = np.maximum(total, 0) if is_relu(node) else np.tanh(total)
        return y, h, before, two_places([y[t] for t in self.steps(node, len(x))], initial)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """RNNRecurrenceGrad for X; R and h from what it gives."""
        kept = self.kept(node, douts, b)
        dx = b.grad(0) if b.needs_grad(0) else b.temp("dx")
        sources = (kept["y"], node.inputs[1], *(*douts, "")[: self.results])
        b.emit("RNNRecurrenceGrad", sources, (dx, b.temp("state")), **node.attrs)
        if b.needs_grad(1):
            self.weights_gradient(b, dx, kept["before"], b.grad(1))
        if b.needs_grad(2):
            b.emit("Gemm", (self.first_step(node, b, dx), node.inputs[1]), (b.grad(2),), beta=0.0)
