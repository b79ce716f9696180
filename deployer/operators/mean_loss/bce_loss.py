"""BCELoss: -mean(target log(pred) + (1 - target) log(1 - pred)), for predictions that are probabilities.

Logarithms count at least FLOOR, as in PyTorch, so that the loss of a probability that is wholly wrong is finite.
"""

from typing import ClassVar

import numpy as np

from deployer.core.declarations import Loss
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.mean_loss.terms import UNIT, MeanLoss, loss_kernel

FLOOR = -100.0


@register
class BCELoss(MeanLoss):
    """Binary cross entropy."""

    name = "BCELoss"
    custom = Form((2, 2), (1, 1))
    loss = Loss(
        "bce",
        "target",
        lambda output: output,
        "probabilities, whose target is from 0 to 1",
        function="binary_cross_entropy",
    )
    kernel = loss_kernel("bce_loss_f32", "floor", "least")
    bounded: ClassVar = {0: UNIT, 1: UNIT}
    grad = "BCELossGrad"
    cost = 2 * FACTS.transcendental

    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """Both logarithms, by the shares of the target."""
        with np.errstate(divide="ignore", invalid="ignore"):
            yes, no = (np.maximum(x, pred.dtype.type(FLOOR)) for x in (np.log(pred), np.log1p(-pred)))
        return np.asarray(-(target * yes + (1 - target) * no))

    def numbers(self, node: Node) -> dict[str, float]:
        """The least logarithm."""
        return {"floor": FLOOR}

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """Probabilities, and targets from 0 to 1, both included."""
        pred, target = r.uniform(0.05, 0.95, shape), r.uniform(-0.5, 1.5, shape).clip(0, 1)
        return pred.astype(np.float32), target.astype(np.float32)
