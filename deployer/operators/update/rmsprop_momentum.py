"""RMSpropMomentum: b' = momentum b + g / (sqrt(v') + eps) with RMSprop's v', and w' = w - lr b', all in place."""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.declarations import Optimizer, State
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.update.rmsprop import ALPHA, SQUARE, divided
from deployer.operators.update.rmsprop import SETTINGS as PLAIN
from deployer.operators.update.weight_update import MOMENTUM, RATE, WeightUpdate, update_form, update_kernel

SETTINGS = (*PLAIN, MOMENTUM)


@register
class RMSpropMomentum(WeightUpdate):
    """RMSprop whose steps go on, as PyTorch has it."""

    name = "RMSpropMomentum"
    optimizer = Optimizer("rmsprop", rate=RATE.place, states={2: SQUARE, 3: State("_momentum")}, settings=SETTINGS)
    custom = update_form(optimizer)
    kernel = update_kernel("rmsprop_momentum_f32", ("v", "b"), SETTINGS, (ALPHA.place,))
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2, 2: 3}
    cost = FACTS.transcendental
    given: ClassVar = {"lr": 0.125, "alpha": 0.75, "eps": 0.25, "weight_decay": 0.5, "momentum": 0.75}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight, the mean of the square and the step."""
        step, v = divided(node, w, g, states[0])
        rate, share = (w.dtype.type(s.of(node)) for s in (RATE, MOMENTUM))
        b = share * states[1] + step
        return w - rate * b, v, b
