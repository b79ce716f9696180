"""HuberLoss: mean(scale h(pred - target)), h(d) = d^2 / 2 up to delta, and delta (|d| - delta / 2) beyond.

Huber, Robust estimation of a location parameter, 1964; `scale` is 1 but for losses that are a multiple of it.
"""

from typing import ClassVar

import numpy as np

from deployer.core.declarations import Loss, Setting
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.terms import MeanLoss, loss_kernel

DELTA = Setting("delta", "distance up to which the loss is a square", 1.0, ends="()")
SCALE = Setting("scale", "what the loss is multiplied by", 1.0, ends="()")
FORM = Form((2, 2), (1, 1), {s.place: s.kind for s in (DELTA, SCALE)})


@register
class HuberLoss(MeanLoss):
    """A square near the target, a line far from it; attributes `delta` and `scale`."""

    name = "HuberLoss"
    custom = FORM
    loss = Loss("huber", "target", lambda output: output, "any float output", settings=(DELTA,))
    kernel = loss_kernel("huber_loss_f32", DELTA.place, SCALE.place)
    grad = "HuberLossGrad"
    differs = True
    settings = (DELTA, SCALE)
    given: ClassVar[dict[str, AttrValue]] = {"delta": 0.5, "scale": 2.0}
    cost = 2

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Scale h(pred - target)."""
        delta, scale = (pred.dtype.type(s.of(node)) for s in (DELTA, SCALE))
        d, half = np.abs(pred - target), pred.dtype.type(1 / 2)
        return np.asarray(scale * np.where(d <= delta, half * d * d, delta * (d - half * delta)))
