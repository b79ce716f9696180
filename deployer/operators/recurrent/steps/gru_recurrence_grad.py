"""GRURecurrenceGrad: the gradients of the gates of GRURecurrence, step by step from the last one back."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.steps.forward_steps import BackwardSteps
from deployer.operators.recurrent.steps.gru_recurrence import GRURecurrence
from deployer.operators.recurrent.steps.recurrence import recurrence_kernel, state_or_zero, two_places


@register
class GRURecurrenceGrad(BackwardSteps):
    """Gates, R, h before each step[, dY and dh of the end] to dX, dq, what of dh does not go through R at the start,
    and the two places of dq's step.

    dq is the gradient of R h: that of the hidden gate is r times dX's.
    """

    name = "GRURecurrenceGrad"
    custom = Form((4, 5), (4, 4), {"reverse": "INT"})
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
