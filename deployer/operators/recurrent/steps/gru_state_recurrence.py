"""GRUStateRecurrence: the steps of a GRU whose reset gate is on h, over inputs that W has multiplied already."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, register
from deployer.operators.recurrent.steps.forward_steps import ForwardSteps, part_of, rows
from deployer.operators.recurrent.steps.gru_recurrence import GATES
from deployer.operators.recurrent.steps.recurrence import (
    BY_GATE,
    optional_outputs,
    recurrence_kernel,
    sigmoid,
    state_or_zero,
    two_places,
)

OUTPUTS = ("y", "last", "gates", "before", "state")


@register
class GRUStateRecurrence(ForwardSteps):
    """X, R[, h] to Y, the last h, what the gradient reads, and the two places of h, one of r h and one of z.

    z, r = sigmoid(X + R h), n = tanh(X + R (r h)), h' = n + z (h - n): the product of n takes r of all units, so gates
    come one after the other. The gradient reads z, r, n and r h, and h before each step.
    """

    name = "GRUStateRecurrence"
    custom = Form((2, 3), (5, 5), {"reverse": "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbku", "r": "kuh", "h": "bh"},
        **{"y": "tbh", "last": "bh", "gates": "tbsh", "before": "tbh", "state": "qbh"},
    }
    kernel = recurrence_kernel("gru_state_recurrence_f32", layout, OUTPUTS, *BY_GATE, "steps")
    needed = ("x", "r", "state")
    spared = optional_outputs(kernel, needed)
    saved = ("gates", "before")
    states = ("h",)
    by_gate = True
    gates, stored = len(GATES), len((*GATES, "gated"))
    functions = len(GATES)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other."""
        x, r, h = self.padded(inputs)
        assert x is not None
        assert r is not None
        units = r.shape[1]
        h = gated = z = initial = state_or_zero(h, x, units)
        y = np.empty((*x.shape[:2], units), x.dtype)
        gates, before = np.empty((*x.shape[:2], self.stored * units), x.dtype), np.empty_like(y)
        for t in self.steps(node, len(x)):
            before[t] = h
            x_z, x_r, x_n = np.split(x[t], len(GATES), axis=1)
            of_z, of_r = np.split(h @ r[: 2 * units].T, 2, axis=1)
            z, reset = sigmoid(x_z + of_z), sigmoid(x_r + of_r)
            gated = reset * h
            n = np.tanh(x_n + gated @ r[2 * units :].T)
            y[t] = h = n + z * (h - n)
            gates[t] = np.concatenate([z, reset, n, gated], axis=1)
        places = two_places([y[t] for t in self.steps(node, len(x))], initial)
        return y, h, gates, before, np.concatenate([places, gated[None], z[None]])

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GRUStateRecurrenceGrad for X; R and h from what it gives."""
        kept = self.kept(node, douts, b)
        arriving = (*douts, "")[: self.results]
        dx, dh = b.grad(0) if b.needs_grad(0) else b.temp("dx"), b.temp("dh")
        sources = (kept["gates"], node.inputs[1], kept["before"], *arriving)
        b.emit("GRUStateRecurrenceGrad", sources, (dx, dh, b.temp("state")), **node.attrs)
        if b.needs_grad(1):
            self._weights_gradient(b, dx, kept, b.grad(1))
        initial = self.place("h")
        if b.needs_grad(initial):
            ends = (0, 2 * b.type(node.inputs[1]).shape[1])
            first, weights = part_of(b, self.first_step(node, b, dx), 1, *ends), part_of(b, node.inputs[1], 0, *ends)
            b.emit("Gemm", (first, weights, dh), (b.grad(initial),))

    def _weights_gradient(self, b: GradientBuilder, dx: str, kept: Mapping[str, str], target: str) -> None:
        """dR: of the first two gates from h, of the last from r h."""
        steps = rows(b, dx, "step_rows")
        units = b.type(kept["before"]).shape[2]
        gated = part_of(b, kept["gates"], 2, len(GATES) * units, self.stored * units)
        parts = [b.temp("of_gates"), b.temp("of_hidden")]
        for part, state, ends in zip(parts, (kept["before"], gated), ((0, 2), (2, len(GATES))), strict=True):
            chosen = part_of(b, steps, 1, ends[0] * units, ends[1] * units)
            b.emit("Gemm", (chosen, rows(b, state, "state_rows")), (part,), transA=1, beta=0.0)
        b.emit("Concat", parts, (target,), axis=0)
