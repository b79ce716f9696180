"""GRURecurrenceGrad: the gradients of a GRU's gates, step by step from the last one back."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import ArgValue, Array, Const, register
from deployer.operators.recurrent.forward_steps import BackwardSteps
from deployer.operators.recurrent.gru_recurrence import AFTER, GATES, GRURecurrence, is_after
from deployer.operators.recurrent.recurrence import optional_outputs, recurrence_kernel, state_or_zero, two_places


@register
class GRURecurrenceGrad(BackwardSteps):
    """Gates, R, h before each step[, dY and dh of the end] to dX, dq, what of dh does not go through R at the start,
    and the two places of dq's step.

    dq is the gradient of R h: with `linear_before_reset` that of the hidden gate is r times dX's, else they are equal.
    """

    name = "GRURecurrenceGrad"
    custom = Form((4, 5), (4, 4), {"reverse": "INT", AFTER: "INT"})
    layout: ClassVar[dict[str, str]] = {
        **{"gates": "tbsu", "r": "ghu", "before": "tbu", "dy": "tbu", "dlast": "bh"},
        **{"dx": "tbgu", "dq": "tbgu", "dh": "bh", "state": "pbgh"},
    }
    kernel = recurrence_kernel("gru_recurrence_grad_f32", layout, ("dx", "dq", "dh", "state"), "after")
    needed = ("gates", "r", "before", "dx", "dh", "state")
    spared = optional_outputs(kernel, needed)
    gates, stored, functions = GRURecurrence.gates, GRURecurrence.stored, 1
    flags = ("reverse", AFTER)
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = GRURecurrence.variants
    forward = GRURecurrence()

    def whole_units(self, node: Node) -> bool:
        """Where the reset gate is on the state, whose gradient takes those of all hidden gates."""
        return not is_after(node)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Where the reset gate is."""
        return {"after": Const(int(is_after(node)))}

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, the last one first."""
        gates, r, before, dy, dlast = self.padded(inputs)
        assert gates is not None
        assert r is not None
        assert before is not None
        units, after = r.shape[1], is_after(node)
        dh, order = state_or_zero(dlast, gates, units), self.steps(node, len(gates))
        dx = np.empty((*gates.shape[:2], len(GATES) * units), gates.dtype)
        dq, direct = np.empty_like(dx), dh
        for t in order:
            z, reset, n, gated = np.split(gates[t], self.stored, axis=1)
            dh = dh if dy is None else dh + dy[t]
            dn, dz = dh * (1 - z) * (1 - n * n), dh * (before[t] - n) * z * (1 - z)
            of_reset = dn @ r[2 * units :]
            dreset = dn * gated if after else of_reset * before[t]
            dr = dreset * reset * (1 - reset)
            dx[t] = np.concatenate([dz, dr, dn], axis=1)
            dq[t] = np.concatenate([dz, dr, dn * reset if after else dn], axis=1)
            direct = dh * z + (0 if after else of_reset * reset)
            dh = direct + (dq[t] @ r if after else dq[t][:, : 2 * units] @ r[: 2 * units])
        return dx, dq, direct, two_places([dq[t] for t in order], np.zeros_like(dq[0]))
