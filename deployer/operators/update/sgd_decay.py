"""SGDDecay: w' = w - lr (g + weight_decay w), in place."""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.declarations import Optimizer
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.update.weight_update import DECAY, RATE, WeightUpdate, update_form, update_kernel

SETTINGS = (DECAY,)


@register
class SGDDecay(WeightUpdate):
    """Gradient descent with decay of the weights, which needs no state."""

    name = "SGDDecay"
    optimizer = Optimizer("sgd", rate=RATE.place, settings=SETTINGS, usual=True)
    custom = update_form(optimizer)
    kernel = update_kernel("sgd_decay_f32", (), SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0}
    cost = 2
    given: ClassVar = {"lr": 0.125, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """w - lr (g + weight_decay w)."""
        rate, decay = (w.dtype.type(s.of(node)) for s in (RATE, DECAY))
        return (w - rate * (g + decay * w),)
