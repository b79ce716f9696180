"""BCEWithLogitsLossGrad: dpred = (1 / (1 + exp(-pred)) - target) / numel."""

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.bce_with_logits_loss import BCEWithLogitsLoss
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel


@register
class BCEWithLogitsLossGrad(MeanLossGrad):
    """The logistic function less the target."""

    name = "BCEWithLogitsLossGrad"
    custom = Form((2, 2), (1, 1))
    kernel = grad_kernel("bce_logits_loss_grad_f32")
    of = BCEWithLogitsLoss

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """By a power that is at most 1; 1 - target is exact where the target is 1."""
        power = np.exp(-np.abs(pred))
        less = power / (1 + power)
        return np.asarray(np.where(pred >= 0, (1 - target) - less, less - target))
