"""BCELossGrad: dpred = (pred - target) / (pred (1 - pred)) / numel; the product is at least LEAST, as in PyTorch."""

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.bce_loss import BCELoss
from deployer.operators.mean_loss.terms import MeanLossGrad, grad_kernel

LEAST = 1e-12


@register
class BCELossGrad(MeanLossGrad):
    """Finite for every probability."""

    name = "BCELossGrad"
    custom = Form((2, 2), (1, 1))
    kernel = grad_kernel("bce_loss_grad_f32", "least")
    of = BCELoss

    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """(pred - target) / (pred (1 - pred))."""
        return np.asarray((pred - target) / np.maximum(pred * (1 - pred), pred.dtype.type(LEAST)))

    def numbers(self, node: Node) -> dict[str, float]:
        """The least product."""
        return {"least": LEAST}
