"""GRURecurrence: the steps of a GRU in one direction, over inputs that W has multiplied already."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, GradientBuilder, mismatch, register
from deployer.operators.recurrent.forward_steps import ForwardSteps, part_of, rows
from deployer.operators.recurrent.recurrence import (
    optional_outputs,
    recurrence_kernel,
    sigmoid,
    state_or_zero,
    two_places,
)

GATES = ("update", "reset", "hidden")
"""In the order of ONNX's weights."""
AFTER = "linear_before_reset"
"""ONNX's attribute: whether the reset gate is on the product with the state, as in PyTorch, or on the state itself."""


def is_after(node: Node) -> bool:
    """Whether the reset gate is on the product."""
    return bool(node.attr_int(AFTER, 0))


OUTPUTS = ("y", "last", "gates", "before", "state")


@register
class GRURecurrence(ForwardSteps):
    """X, R[, the bias of R, h] to Y, the last h, what the gradient reads, and two places of h and one of the fourth.

    z, r = sigmoid(X + R h + b), n = tanh(X + r (R h + b)) or, by default, n = tanh(X + R (r h)); h' = n + z (h - n).
    The gradient reads z, r, n and what r makes of the product or the state, and h before each step. Without
    `linear_before_reset` a step needs all units at once, and has no bias.
    """

    name = "GRURecurrence"
    custom = Form((2, 4), (5, 5), {"reverse": "INT", AFTER: "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "bias": "gu", "h": "bh"},
        **{"y": "tbu", "last": "bh", "gates": "tbsu", "before": "tbu", "state": "wbh"},
    }
    kernel = recurrence_kernel("gru_recurrence_f32", layout, OUTPUTS, "steps", "after")
    needed = ("x", "r", "state")
    spared = optional_outputs(kernel, needed)
    saved = ("gates", "before")
    states = ("h",)
    gates, stored = len(GATES), len((*GATES, "product"))
    functions = len(GATES)
    flags = ("reverse", AFTER)
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = ({AFTER: 1}, {AFTER: 0})

    def whole_units(self, node: Node) -> bool:
        """Where the reset gate is on the state, all of which the product takes."""
        return not is_after(node)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each operand has the shape of its layout."""
        if len(inputs) > 2 and inputs[2] and not is_after(node):
            raise mismatch(node, f"it has a bias of R, which needs {AFTER}", inputs)
        return super().infer(node, inputs)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Where the reset gate is."""
        return {"after": Const(int(is_after(node)))}

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other."""
        x, r, bias, h = self.padded(inputs)
        assert x is not None
        assert r is not None
        units, after = r.shape[1], is_after(node)
        h = initial = state_or_zero(h, x, units)
        bias = np.zeros(len(r), x.dtype) if bias is None else bias
        y = np.empty((*x.shape[:2], units), x.dtype)
        gates, before, gated = np.empty((*x.shape[:2], self.stored * units), x.dtype), np.empty_like(y), h
        for t in self.steps(node, len(x)):
            before[t] = h
            of_z, of_r, of_n = np.split(h @ r.T + bias, len(GATES), axis=1)
            x_z, x_r, x_n = np.split(x[t], len(GATES), axis=1)
            z, reset = sigmoid(x_z + of_z), sigmoid(x_r + of_r)
            gated = of_n if after else reset * h
            n = np.tanh(x_n + (reset * of_n if after else gated @ r[2 * units :].T))
            y[t] = h = n + z * (h - n)
            gates[t] = np.concatenate([z, reset, n, gated], axis=1)
        places = two_places([y[t] for t in self.steps(node, len(x))], initial)
        return y, h, gates, before, np.concatenate([places, gated[None]])

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GRURecurrenceGrad for X; the others from what it gives."""
        kept, after = self.kept(node, douts, b), is_after(node)
        arriving = (*douts, "")[: self.results]
        dx = b.grad(0) if b.needs_grad(0) else b.temp("dx")
        dq, dh = b.temp("dq") if after else "", b.temp("dh")
        sources = (kept["gates"], node.inputs[1], kept["before"], *arriving)
        b.emit("GRURecurrenceGrad", sources, (dx, dq, dh, b.temp("state")), **node.attrs)
        if b.needs_grad(1) and after:
            self.weights_gradient(b, dq, kept["before"], b.grad(1))
        elif b.needs_grad(1):
            self._reset_gradient(b, dx, kept, b.grad(1))
        if b.needs_grad(2):
            b.reduce_to(rows(b, dq, "bias_rows"), b.type(node.inputs[2]).shape, b.grad(2))
        initial = self.place("h")
        if b.needs_grad(initial):
            self._state_gradient(node, b, (dq or dx, dh), b.grad(initial))

    def _reset_gradient(self, b: GradientBuilder, dx: str, kept: Mapping[str, str], target: str) -> None:
        """dR where the reset gate is on the state: of the first two gates from h, of the last from r h."""
        steps = rows(b, dx, "step_rows")
        units = b.type(kept["before"]).shape[2]
        gated = part_of(b, kept["gates"], 2, len(GATES) * units, self.stored * units)
        parts = [b.temp("of_gates"), b.temp("of_hidden")]
        for part, state, ends in zip(parts, (kept["before"], gated), ((0, 2), (2, len(GATES))), strict=True):
            chosen = part_of(b, steps, 1, ends[0] * units, ends[1] * units)
            b.emit("Gemm", (chosen, rows(b, state, "state_rows")), (part,), transA=1, beta=0.0)
        b.emit("Concat", parts, (target,), axis=0)

    def _state_gradient(self, node: Node, b: GradientBuilder, steps: tuple[str, str], target: str) -> None:
        """dh of the start: what arrives through R, and what z lets through."""
        first, weights = self.first_step(node, b, steps[0]), node.inputs[1]
        if not is_after(node):
            units = b.type(weights).shape[1]
            first, weights = part_of(b, first, 1, 0, 2 * units), part_of(b, weights, 0, 0, 2 * units)
        b.emit("Gemm", (first, weights, steps[1]), (target,))

    def absent(self, attrs: Mapping[str, AttrValue]) -> tuple[str, ...]:
        """The bias, where the reset gate is on the state."""
        return () if attrs[AFTER] else ("bias",)
