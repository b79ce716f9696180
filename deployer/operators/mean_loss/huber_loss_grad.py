"""HuberLossGrad: dpred = scale (pred - target) / numel, where the difference counts at most delta."""

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.huber_loss import DELTA, FORM, SCALE, HuberLoss
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel


@register
class HuberLossGrad(MeanLossGrad):
    """Attributes as the loss has them."""

    name = "HuberLossGrad"
    custom = FORM
    kernel = grad_kernel("huber_loss_grad_f32", DELTA.place)
    of = HuberLoss

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """The difference, kept between -delta and delta, times the scale."""
        delta, scale = (pred.dtype.type(s.of(node)) for s in (DELTA, SCALE))
        return np.asarray(scale * np.clip(pred - target, -delta, delta))

    def numbers(self, node: Node) -> dict[str, float]:
        """The distance."""
        return {DELTA.place: DELTA.of(node)}

    def factor(self, node: Node) -> float:
        """The scale."""
        return SCALE.of(node)
