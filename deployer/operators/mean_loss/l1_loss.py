"""L1Loss: mean(|pred - target|)."""

from collections.abc import Sequence

import numpy as np

from deployer.core.declarations import Borders, Loss
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.inputs import arrays
from deployer.operators.mean_loss.terms import MeanLoss, loss_kernel


@register
class L1Loss(MeanLoss):
    """The mean of all distances."""

    name = "L1Loss"
    custom = Form((2, 2), (1, 1))
    loss = Loss("l1", "target", lambda output: output, "any float output")
    kernel = loss_kernel("l1_loss_f32")
    grad = "L1LossGrad"
    differs = True

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """|pred - target|."""
        return np.asarray(np.abs(pred - target))

    def borders(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Borders, ...]:
        """Each element decides by its side of the target which sign its gradient has."""
        pred, target = (x.reshape(-1) for x in arrays(inputs, 2))
        turned = np.where(pred > target, target, np.nextafter(target, np.inf))
        return (Borders(0, np.arange(pred.size), np.abs(pred - target), turned),)
