"""RNNRecurrenceGrad: the gradients of a plain recurrent layer's sums, step by step from the last one back."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import ArgValue, Array, Const, register
from deployer.operators.recurrent.steps.forward_steps import BackwardSteps
from deployer.operators.recurrent.steps.recurrence import recurrence_kernel, state_or_zero, two_places
from deployer.operators.recurrent.steps.rnn_recurrence import RNNRecurrence, is_relu


@register
class RNNRecurrenceGrad(BackwardSteps):
    """Y, R[, dY and dh of the end] to dX and the two places of dX's step."""

    name = "RNNRecurrenceGrad"
    custom = Form((3, 4), (2, 2), {"reverse": "INT", "activation": "STRING"})
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
        """Which activation."""
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
