"""GRURecurrence: the steps of a GRU whose reset gate is on R h, over inputs that W has multiplied already."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.recurrent.steps.forward_steps import ForwardSteps, rows
from deployer.operators.recurrent.steps.recurrence import (
    optional_outputs,
    recurrence_kernel,
    sigmoid,
    state_or_zero,
    two_places,
)

GATES = ("update", "reset", "hidden")
"""In the order of ONNX's weights."""
OUTPUTS = ("y", "last", "gates", "before", "state")


@register
class GRURecurrence(ForwardSteps):
    """X, R[, the bias of R, h] to Y, the last h, what the gradient reads, and the two places of h.

    z, r = sigmoid(X + R h + b), n = tanh(X + r (R h + b)), h' = n + z (h - n). The gradient reads z, r, n and what r
    is multiplied with, and h before each step.
    """

    name = "GRURecurrence"
    custom = Form((2, 4), (5, 5), {"reverse": "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "bias": "gu", "h": "bh"},
        **{"y": "tbu", "last": "bh", "gates": "tbsu", "before": "tbu", "state": "pbh"},
    }
    kernel = recurrence_kernel("gru_recurrence_f32", layout, OUTPUTS, "steps")
    needed = ("x", "r", "state")
    spared = optional_outputs(kernel, needed)
    saved = ("gates", "before")
    states = ("h",)
    gates, stored = len(GATES), len((*GATES, "product"))
    functions = len(GATES)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other."""
        x, r, bias, h = self.padded(inputs)
        assert x is not None
        assert r is not None
        units = r.shape[1]
        h = initial = state_or_zero(h, x, units)
        bias = np.zeros(len(r), x.dtype) if bias is None else bias
        y = np.empty((*x.shape[:2], units), x.dtype)
        gates, before = np.empty((*x.shape[:2], self.stored * units), x.dtype), np.empty_like(y)
        for t in self.steps(node, len(x)):
            before[t] = h
            of_z, of_r, of_n = np.split(h @ r.T + bias, len(GATES), axis=1)
            x_z, x_r, x_n = np.split(x[t], len(GATES), axis=1)
            z, reset = sigmoid(x_z + of_z), sigmoid(x_r + of_r)
            n = np.tanh(x_n + reset * of_n)
            y[t] = h = n + z * (h - n)
            gates[t] = np.concatenate([z, reset, n, of_n], axis=1)
        return y, h, gates, before, two_places([y[t] for t in self.steps(node, len(x))], initial)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GRURecurrenceGrad for X; the others from what it gives."""
        kept = self.kept(node, douts, b)
        arriving = (*douts, "")[: self.results]
        dx = b.grad(0) if b.needs_grad(0) else b.temp("dx")
        dq, dh = b.temp("dq"), b.temp("dh")
        sources = (kept["gates"], node.inputs[1], kept["before"], *arriving)
        b.emit("GRURecurrenceGrad", sources, (dx, dq, dh, b.temp("state")), **node.attrs)
        if b.needs_grad(1):
            self.weights_gradient(b, dq, kept["before"], b.grad(1))
        if b.needs_grad(2):
            b.reduce_to(rows(b, dq, "bias_rows"), b.type(node.inputs[2]).shape, b.grad(2))
        initial = self.place("h")
        if b.needs_grad(initial):
            b.emit("Gemm", (self.first_step(node, b, dq), node.inputs[1], dh), (b.grad(initial),))
