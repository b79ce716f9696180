"""MSELossGrad: dpred = 2 (pred - target) / numel."""

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.mse_loss import MSELoss
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel


@register
class MSELossGrad(MeanLossGrad):
    """Gradient of MSELoss with respect to pred, for a loss gradient of one."""

    name = "MSELossGrad"
    custom = Form((2, 2), (1, 1))
    kernel = grad_kernel("mse_loss_grad_f32")
    of = MSELoss

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """2 (pred - target)."""
        return np.asarray(2 * (pred - target))

    def factor(self, node: Node) -> float:
        """The 2: a product with 2 / numel, as not every machine divides fast."""
        return 2.0
