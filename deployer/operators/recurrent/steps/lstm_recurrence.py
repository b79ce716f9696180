"""LSTMRecurrence: the steps of an LSTM in one direction, over inputs that W has multiplied already."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.recurrent.steps.forward_steps import ForwardSteps
from deployer.operators.recurrent.steps.recurrence import (
    optional_outputs,
    recurrence_kernel,
    sigmoid,
    state_or_zero,
    two_places,
)

GATES = ("input", "output", "forget", "cell")
"""In the order of ONNX's weights."""

OUTPUTS = ("y", "last", "cell", "gates", "before", "cell_before", "state")


@register
class LSTMRecurrence(ForwardSteps):
    """X, R[, h, c] to Y, the last h and c, what the gradient reads, and the two places of h.

    i, o, f = sigmoid(X + R h), g = tanh(X + R h), c' = f c + i g, h' = o tanh(c'); h and c are zero where absent. The
    gradient reads i, o, f and g, and h and c before each step.
    """

    name = "LSTMRecurrence"
    custom = Form((2, 4), (7, 7), {"reverse": "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "h": "bh", "c": "bh"},
        **{"y": "tbu", "last": "bh", "cell": "bh", "gates": "tbsu", "before": "tbu", "cell_before": "tbu"},
        "state": "pbh",
    }
    kernel = recurrence_kernel("lstm_recurrence_f32", layout, OUTPUTS, "steps")
    needed = ("x", "r", "cell", "state")
    spared = optional_outputs(kernel, needed)
    saved = ("gates", "before", "cell_before")
    states = ("h", "c")
    results = len(("y", "last", "cell"))
    gates = stored = len(GATES)
    functions = len(GATES) + 1

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other."""
        x, r, h, c = self.padded(inputs)
        assert x is not None
        assert r is not None
        units = r.shape[1]
        h, c = state_or_zero(h, x, units), state_or_zero(c, x, units)
        y, gates = np.empty((*x.shape[:2], units), x.dtype), np.empty_like(x)
        before, cell_before, initial = np.empty_like(y), np.empty_like(y), h
        for t in self.steps(node, len(x)):
            before[t], cell_before[t] = h, c
            i, o, f, g = np.split(x[t] + h @ r.T, len(GATES), axis=1)
            i, o, f, g = sigmoid(i), sigmoid(o), sigmoid(f), np.tanh(g)
            c = f * c + i * g
            y[t] = h = o * np.tanh(c)
            gates[t] = np.concatenate([i, o, f, g], axis=1)
        states = two_places([y[t] for t in self.steps(node, len(x))], initial)
        return y, h, c, gates, before, cell_before, states

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """LSTMRecurrenceGrad for X and c; R and h from what it gives."""
        kept = self.kept(node, douts, b)
        arriving = (*douts, "", "")[: self.results]
        dx = b.grad(0) if b.needs_grad(0) else b.temp("dx")
        initial = self.place("c")
        dc = b.grad(initial) if b.needs_grad(initial) else b.temp("dc")
        sources = (kept["gates"], node.inputs[1], kept["cell_before"], *arriving)
        b.emit("LSTMRecurrenceGrad", sources, (dx, dc, b.temp("state")), **node.attrs)
        if b.needs_grad(1):
            self.weights_gradient(b, dx, kept["before"], b.grad(1))
        if b.needs_grad(2):
            b.emit("Gemm", (self.first_step(node, b, dx), node.inputs[1]), (b.grad(2),), beta=0.0)
