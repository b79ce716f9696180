"""BCEWithLogitsLoss: BCELoss of the logistic function of pred, as max(x, 0) - x target + log(1 + exp(-|x|))."""

from typing import ClassVar

import numpy as np

from deployer.core.declarations import Loss
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.inputs import normal
from deployer.operators.mean_loss.terms import UNIT, MeanLoss, loss_kernel


@register
class BCEWithLogitsLoss(MeanLoss):
    """Binary cross entropy of scores, which no score makes infinite."""

    name = "BCEWithLogitsLoss"
    custom = Form((2, 2), (1, 1))
    loss = Loss(
        "bce_with_logits",
        "target",
        lambda output: output,
        "scores, whose target is from 0 to 1",
        function="binary_cross_entropy_with_logits",
    )
    kernel = loss_kernel("bce_logits_loss_f32")
    bounded: ClassVar = {1: UNIT}
    grad = "BCEWithLogitsLossGrad"
    cost = 2 * FACTS.transcendental

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """max(x, 0) - x target + log(1 + exp(-|x|))."""
        return np.asarray(np.maximum(pred, 0) - pred * target + np.log1p(np.exp(-np.abs(pred))))

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Small and large scores, and targets from 0 to 1, both included."""
        pred, target = normal(r, *shape) * np.float32(2), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred, target.astype(np.float32)
