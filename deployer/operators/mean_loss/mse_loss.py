"""MSELoss: mean((pred - target)^2)."""

from collections.abc import Mapping

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Loss
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Work, register
from deployer.operators.mean_loss.terms import MeanLoss, loss_kernel


@register
class MSELoss(MeanLoss):
    """pred and target have one shape; the loss is a scalar."""

    name = "MSELoss"
    custom = Form((2, 2), (1, 1))
    loss = Loss("mse", "target", lambda output: output, "any float output")
    kernel = loss_kernel("mse_loss_f32")
    grad = "MSELossGrad"
    differs = True

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """(pred - target)^2."""
        return np.asarray((pred - target) ** 2)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A difference and a multiply-accumulate per element, all on one core."""
        return Work(macs=tile["n"], elements=tile["n"], parallel=1, form=self.form(access))
