"""GRUStateRecurrenceGrad: the gradients of the gates of GRUStateRecurrence, step by step from the last one back."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.steps.forward_steps import BackwardSteps
from deployer.operators.recurrent.steps.gru_state_recurrence import GRUStateRecurrence
from deployer.operators.recurrent.steps.recurrence import BY_GATE, recurrence_kernel, state_or_zero, two_places


@register
class GRUStateRecurrenceGrad(BackwardSteps):
    """Gates, R, h before each step[, dY and dh of the end] to dX, what of dh does not go through the first two gates
    of R at the start, and the two places of dX's step.

    The gradient of r takes those of n of all units, so gates come one after the other.
    """

    name = "GRUStateRecurrenceGrad"
    custom = Form((4, 5), (3, 3), {"reverse": "INT"})
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
