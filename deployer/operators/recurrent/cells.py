"""Recurrences of RNN, LSTM and GRU cells, and their gradients."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const
from deployer.core.operator import Array, GradientBuilder, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.operators.recurrent.steps import (
    BY_GATE,
    BackwardSteps,
    ForwardSteps,
    optional_outputs,
    recurrence_kernel,
    rows,
    sigmoid,
    sliced,
    state_or_zero,
    two_places,
)

GRU_GATES = ("update", "reset", "hidden")
"""In the order of ONNX's weights."""
GRU_OUTPUTS = ("y", "last", "gates", "before", "state")


@register
class GRURecurrence(ForwardSteps):
    """The steps of a GRU whose reset gate is on R h, over inputs that W has multiplied already.

    X, R[, the bias of R, h] to Y, the last h, what the gradient reads, and the two places of h.

    z, r = sigmoid(X + R h + b), n = tanh(X + r (R h + b)), h' = n + z (h - n). The gradient reads z, r, n and what r
    is multiplied with, and h before each step.
    """

    name = "GRURecurrence"
    file = replace(ForwardSteps.file, custom=Signature((2, 4), (5, 5), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "bias": "gu", "h": "bh"},
        **{"y": "tbu", "last": "bh", "gates": "tbsu", "before": "tbu", "state": "pbh"},
    }
    kernel = recurrence_kernel("gru_recurrence_f32", layout, GRU_OUTPUTS, "steps")
    needed = ("x", "r", "state")
    execution = Execution(optional_outputs=optional_outputs(kernel, needed))
    saved = ("gates", "before")
    states = ("h",)
    gates, stored = len(GRU_GATES), len((*GRU_GATES, "product"))
    functions = len(GRU_GATES)

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
            of_z, of_r, of_n = np.split(h @ r.T + bias, len(GRU_GATES), axis=1)
            x_z, x_r, x_n = np.split(x[t], len(GRU_GATES), axis=1)
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


@register
class GRURecurrenceGrad(BackwardSteps):
    """The gradients of the gates of GRURecurrence, step by step from the last one back.

    Gates, R, h before each step[, dY and dh of the end] to dX, dq, what of dh does not go through R at the start,
    and the two places of dq's step.

    dq is the gradient of R h: that of the hidden gate is r times dX's.
    """

    name = "GRURecurrenceGrad"
    file = replace(BackwardSteps.file, custom=Signature((4, 5), (4, 4), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"gates": "tbsu", "r": "ghu", "before": "tbu", "dy": "tbu", "dlast": "bh"},
        **{"dx": "tbgu", "dq": "tbgu", "dh": "bh", "state": "pbgh"},
    }
    kernel = recurrence_kernel("gru_recurrence_grad_f32", layout, ("dx", "dq", "dh", "state"))
    needed = ("gates", "r", "before", "dx", "dq", "dh", "state")
    gates, stored, functions = GRURecurrence.gates, GRURecurrence.stored, 1
    forward = GRURecurrence()

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, the last one first."""
        gates, r, before, dy, dlast = self.padded(inputs)
        assert gates is not None
        assert r is not None
        assert before is not None
        dh, order = state_or_zero(dlast, gates, r.shape[1]), self.steps(node, len(gates))
        dx = np.empty((*gates.shape[:2], len(r)), gates.dtype)
        dq, direct = np.empty_like(dx), dh
        for t in order:
            z, reset, n, gated = np.split(gates[t], self.stored, axis=1)
            dh = dh if dy is None else dh + dy[t]
            dn, dz = dh * (1 - z) * (1 - n * n), dh * (before[t] - n) * z * (1 - z)
            dr = dn * gated * reset * (1 - reset)
            dx[t] = np.concatenate([dz, dr, dn], axis=1)
            dq[t] = np.concatenate([dz, dr, dn * reset], axis=1)
            direct = dh * z
            dh = direct + dq[t] @ r
        return dx, dq, direct, two_places([dq[t] for t in order], np.zeros_like(dq[0]))


GRU_STATE_OUTPUTS = ("y", "last", "gates", "before", "state")


@register
class GRUStateRecurrence(ForwardSteps):
    """The steps of a GRU whose reset gate is on h, over inputs that W has multiplied already.

    X, R[, h] to Y, the last h, what the gradient reads, and the two places of h, one of r h and one of z.

    z, r = sigmoid(X + R h), n = tanh(X + R (r h)), h' = n + z (h - n): the product of n takes r of all units, so gates
    come one after the other. The gradient reads z, r, n and r h, and h before each step.
    """

    name = "GRUStateRecurrence"
    file = replace(ForwardSteps.file, custom=Signature((2, 3), (5, 5), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbku", "r": "kuh", "h": "bh"},
        **{"y": "tbh", "last": "bh", "gates": "tbsh", "before": "tbh", "state": "qbh"},
    }
    kernel = recurrence_kernel("gru_state_recurrence_f32", layout, GRU_STATE_OUTPUTS, *BY_GATE, "steps")
    needed = ("x", "r", "state")
    execution = Execution(optional_outputs=optional_outputs(kernel, needed))
    saved = ("gates", "before")
    states = ("h",)
    by_gate = True
    gates, stored = len(GRU_GATES), len((*GRU_GATES, "gated"))
    functions = len(GRU_GATES)

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
            x_z, x_r, x_n = np.split(x[t], len(GRU_GATES), axis=1)
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
            first, weights = sliced(b, self.first_step(node, b, dx), 1, *ends), sliced(b, node.inputs[1], 0, *ends)
            b.emit("Gemm", (first, weights, dh), (b.grad(initial),))

    def _weights_gradient(self, b: GradientBuilder, dx: str, kept: Mapping[str, str], target: str) -> None:
        """dR: of the first two gates from h, of the last from r h."""
        steps = rows(b, dx, "step_rows")
        units = b.type(kept["before"]).shape[2]
        gated = sliced(b, kept["gates"], 2, len(GRU_GATES) * units, self.stored * units)
        gradients = [b.temp("of_gates"), b.temp("of_hidden")]
        for gradient, state, ends in zip(
            gradients, (kept["before"], gated), ((0, 2), (2, len(GRU_GATES))), strict=True
        ):
            chosen = sliced(b, steps, 1, ends[0] * units, ends[1] * units)
            b.emit("Gemm", (chosen, rows(b, state, "state_rows")), (gradient,), transA=1, beta=0.0)
        b.emit("Concat", gradients, (target,), axis=0)


@register
class GRUStateRecurrenceGrad(BackwardSteps):
    """The gradients of the gates of GRUStateRecurrence, step by step from the last one back.

    Gates, R, h before each step[, dY and dh of the end] to dX, what of dh does not go through the first two gates
    of R at the start, and the two places of dX's step.

    The gradient of r takes those of n of all units, so gates come one after the other.
    """

    name = "GRUStateRecurrenceGrad"
    file = replace(BackwardSteps.file, custom=Signature((4, 5), (3, 3), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"gates": "tbsh", "r": "khu", "before": "tbh", "dy": "tbh", "dlast": "bh"},
        **{"dx": "tbgh", "dh": "bh", "state": "pbgh"},
    }
    kernel = recurrence_kernel("gru_state_recurrence_grad_f32", layout, ("dx", "dh", "state"), *BY_GATE)
    needed = ("gates", "r", "before", "dx", "dh", "state")
    by_gate = True
    gates, stored, functions = GRUStateRecurrence.gates, GRUStateRecurrence.stored, 1
    forward = GRUStateRecurrence()

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, the last one first."""
        gates, r, before, dy, dlast = self.padded(inputs)
        assert gates is not None
        assert r is not None
        assert before is not None
        units = r.shape[1]
        dh, order = state_or_zero(dlast, gates, units), self.steps(node, len(gates))
        dx, direct = np.empty((*gates.shape[:2], len(r)), gates.dtype), dh
        for t in order:
            z, reset, n, _ = np.split(gates[t], self.stored, axis=1)
            dh = dh if dy is None else dh + dy[t]
            dn, dz = dh * (1 - z) * (1 - n * n), dh * (before[t] - n) * z * (1 - z)
            of_reset = dn @ r[2 * units :]
            dx[t] = np.concatenate([dz, of_reset * before[t] * reset * (1 - reset), dn], axis=1)
            direct = dh * z + of_reset * reset
            dh = direct + dx[t][:, : 2 * units] @ r[: 2 * units]
        return dx, direct, two_places([dx[t] for t in order], np.zeros_like(dx[0]))


LSTM_GATES = ("input", "output", "forget", "cell")
"""In the order of ONNX's weights."""

LSTM_OUTPUTS = ("y", "last", "cell", "gates", "before", "cell_before", "state")


@register
class LSTMRecurrence(ForwardSteps):
    """The steps of an LSTM in one direction, over inputs that W has multiplied already.

    X, R[, h, c] to Y, the last h and c, what the gradient reads, and the two places of h.

    i, o, f = sigmoid(X + R h), g = tanh(X + R h), c' = f c + i g, h' = o tanh(c'); h and c are zero where absent. The
    gradient reads i, o, f and g, and h and c before each step.
    """

    name = "LSTMRecurrence"
    file = replace(ForwardSteps.file, custom=Signature((2, 4), (7, 7), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "h": "bh", "c": "bh"},
        **{"y": "tbu", "last": "bh", "cell": "bh", "gates": "tbsu", "before": "tbu", "cell_before": "tbu"},
        "state": "pbh",
    }
    kernel = recurrence_kernel("lstm_recurrence_f32", layout, LSTM_OUTPUTS, "steps")
    needed = ("x", "r", "cell", "state")
    execution = Execution(optional_outputs=optional_outputs(kernel, needed))
    saved = ("gates", "before", "cell_before")
    states = ("h", "c")
    results = len(("y", "last", "cell"))
    gates = stored = len(LSTM_GATES)
    functions = len(LSTM_GATES) + 1

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
            i, o, f, g = np.split(x[t] + h @ r.T, len(LSTM_GATES), axis=1)
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


@register
class LSTMRecurrenceGrad(BackwardSteps):
    """The gradients of an LSTM's gates, step by step from the last one back.

    Gates, R, c before each step[, dY, dh and dc of the end] to dX, dc of the start, and the two places of dX's step.

    dh = dY + R^T dX of the step behind, or dh of the end; dX = the slopes of the gates times what arrives at them.
    """

    name = "LSTMRecurrenceGrad"
    file = replace(BackwardSteps.file, custom=Signature((4, 6), (3, 3), {"reverse": "INT"}))
    layout: ClassVar[dict[str, str]] = {
        **{"gates": "tbsu", "r": "ghu", "cell_before": "tbu", "dy": "tbu", "dlast": "bh", "dcell": "bh"},
        **{"dx": "tbgu", "dc": "bh", "state": "pbgh"},
    }
    kernel = recurrence_kernel("lstm_recurrence_grad_f32", layout, ("dx", "dc", "state"))
    needed = ("gates", "r", "cell_before", "dx", "dc", "state")
    gates = stored = len(LSTM_GATES)
    functions = 1
    forward = LSTMRecurrence()

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, the last one first."""
        gates, r, cell_before, dy, dlast, dcell = self.padded(inputs)
        assert gates is not None
        assert r is not None
        assert cell_before is not None
        units = r.shape[1]
        dh, dc = state_or_zero(dlast, gates, units), state_or_zero(dcell, gates, units)
        dx, order = np.empty_like(gates), self.steps(node, len(gates))
        for t in order:
            i, o, f, g = np.split(gates[t], len(LSTM_GATES), axis=1)
            dh = dh if dy is None else dh + dy[t]
            tangent = np.tanh(f * cell_before[t] + i * g)
            dc = dc + dh * o * (1 - tangent * tangent)
            gate_gradients = (dc * g * i * (1 - i), dh * tangent * o * (1 - o), dc * cell_before[t] * f * (1 - f))
            dx[t] = np.concatenate([*gate_gradients, dc * i * (1 - g * g)], axis=1)
            dc, dh = dc * f, dx[t] @ r
        return dx, dc, two_places([dx[t] for t in order], np.zeros_like(dx[0]))


FUNCTIONS = ("Tanh", "Relu")
"""What the attribute `activation` may be, the usual one first."""


def is_relu(node: Node) -> bool:
    """Whether the activation is Relu; UnsupportedOperator where it is neither that nor Tanh."""
    name = node.attr_str("activation", FUNCTIONS[0])
    if name not in FUNCTIONS:
        raise unsupported(node, f"its activation is {name!r}", f"one of {', '.join(FUNCTIONS)}")
    return name != FUNCTIONS[0]


RNN_OUTPUTS = ("y", "last", "before", "state")


@register
class RNNRecurrence(ForwardSteps):
    """The steps of a plain recurrent layer in one direction, over inputs that W has multiplied already.

    X, R[, h] to Y, the last h, h before each step, and the two places of h; h' = f(X + R h).
    """

    name = "RNNRecurrence"
    file = replace(ForwardSteps.file, custom=Signature((2, 3), (4, 4), {"reverse": "INT", "activation": "STRING"}))
    layout: ClassVar[dict[str, str]] = {
        **{"x": "tbgu", "r": "guh", "h": "bh"},
        **{"y": "tbu", "last": "bh", "before": "tbu", "state": "pbh"},
    }
    kernel = recurrence_kernel("rnn_recurrence_f32", layout, RNN_OUTPUTS, "steps", "relu")
    needed = ("x", "r", "state")
    execution = Execution(optional_outputs=optional_outputs(kernel, needed))
    saved = ("y", "before")
    states = ("h",)
    gates = stored = functions = 1
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = tuple({"activation": name} for name in FUNCTIONS)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each operand has the shape of its layout."""
        is_relu(node)
        return super().infer(node, inputs)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Return the constant that selects the activation."""
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


@register
class RNNRecurrenceGrad(BackwardSteps):
    """The gradients of a plain recurrent layer's sums, step by step from the last one back.

    Y, R[, dY and dh of the end] to dX and the two places of dX's step.
    """

    name = "RNNRecurrenceGrad"
    file = replace(BackwardSteps.file, custom=Signature((3, 4), (2, 2), {"reverse": "INT", "activation": "STRING"}))
    layout: ClassVar[dict[str, str]] = {
        **{"y": "tbsu", "r": "ghu", "dy": "tbu", "dlast": "bh"},
        **{"dx": "tbgu", "state": "pbgh"},
    }
    kernel = recurrence_kernel("rnn_recurrence_grad_f32", layout, ("dx", "state"), "relu")
    needed = ("y", "r", "dx", "state")
    gates = stored = functions = 1
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = RNNRecurrence.variants
    forward = RNNRecurrence()

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Return the constant that selects the activation."""
        return {"relu": Const(int(is_relu(node)))}

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, the last one first."""
        y, r, dy, dlast = self.padded(inputs)
        assert y is not None
        assert r is not None
        dh, order, dx = state_or_zero(dlast, y, r.shape[1]), self.steps(node, len(y)), np.empty_like(y)
        for t in order:
            dh = dh if dy is None else dh + dy[t]
            dx[t] = np.where(y[t] > 0, dh, 0) if is_relu(node) else dh * (1 - y[t] * y[t])
            dh = dx[t] @ r
        return dx, two_places([dx[t] for t in order], np.zeros_like(dx[0]))
