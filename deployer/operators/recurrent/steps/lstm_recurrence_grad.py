"""LSTMRecurrenceGrad: the gradients of an LSTM's gates, step by step from the last one back."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.steps.forward_steps import BackwardSteps
from deployer.operators.recurrent.steps.lstm_recurrence import GATES, LSTMRecurrence
from deployer.operators.recurrent.steps.recurrence import recurrence_kernel, state_or_zero, two_places


@register
class LSTMRecurrenceGrad(BackwardSteps):
    """Gates, R, c before each step[, dY, dh and dc of the end] to dX, dc of the start, and the two places of dX's step.

    dh = dY + R^T dX of the step behind, or dh of the end; dX = the slopes of the gates times what arrives at them.
    """

    name = "LSTMRecurrenceGrad"
    custom = Form((4, 6), (3, 3), {"reverse": "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"gates": "tbsu", "r": "ghu", "cell_before": "tbu", "dy": "tbu", "dlast": "bh", "dcell": "bh"},
        **{"dx": "tbgu", "dc": "bh", "state": "pbgh"},
    }
    kernel = recurrence_kernel("lstm_recurrence_grad_f32", layout, ("dx", "dc", "state"))
    needed = ("gates", "r", "cell_before", "dx", "dc", "state")
    gates = stored = len(GATES)
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
            i, o, f, g = np.split(gates[t], len(GATES), axis=1)
            dh = dh if dy is None else dh + dy[t]
            tangent = np.tanh(f * cell_before[t] + i * g)
            dc = dc + dh * o * (1 - tangent * tangent)
            parts = (dc * g * i * (1 - i), dh * tangent * o * (1 - o), dc * cell_before[t] * f * (1 - f))
            dx[t] = np.concatenate([*parts, dc * i * (1 - g * g)], axis=1)
            dc, dh = dc * f, dx[t] @ r
        return dx, dc, two_places([dx[t] for t in order], np.zeros_like(dx[0]))
