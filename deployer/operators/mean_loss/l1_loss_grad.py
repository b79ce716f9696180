"""L1LossGrad: dpred = sign(pred - target) / numel."""

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.l1_loss import L1Loss
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel


@register
class L1LossGrad(MeanLossGrad):
    """0 where prediction and target are equal, as in PyTorch."""

    name = "L1LossGrad"
    custom = Form((2, 2), (1, 1))
    kernel = grad_kernel("l1_loss_grad_f32")
    of = L1Loss

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """sign(pred - target)."""
        return np.asarray(np.sign(pred - target))
