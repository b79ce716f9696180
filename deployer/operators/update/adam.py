"""Adam: moments of the gradient, corrected for their start at zero, all in place.

Kingma and Ba, Adam: a method for stochastic optimization, 2015, algorithm 1; epsilon is added to the corrected root,
and the decay to the gradient, as PyTorch does.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Optimizer, Setting, State
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.update.weight_update import DECAY, EPS, RATE, WeightUpdate, update_form, update_kernel

FIRST = Setting("beta1", "share that the mean of the gradient keeps", 0.9, most=1.0)
SECOND = Setting("beta2", "share that the mean of its square keeps", 0.999, most=1.0)
SETTINGS = (FIRST, SECOND, EPS, DECAY)


@register
class Adam(WeightUpdate):
    """Inputs are weight, gradient, both moments and the number of the update, from 1 on."""

    name = "Adam"
    optimizer = Optimizer(
        "adam",
        rate=RATE.place,
        states={2: State("_first_moment"), 3: State("_second_moment")},
        count=4,
        settings=SETTINGS,
    )
    custom = update_form(optimizer)
    kernel = update_kernel("adam_f32", ("m", "v"), SETTINGS, (FIRST.place, SECOND.place), count=True)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2, 2: 3}
    cost = FACTS.transcendental
    given: ClassVar = {"lr": 0.125, "beta1": 0.5, "beta2": 0.75, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and both moments."""
        rate, decay, alpha, beta, eps = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, FIRST, SECOND, EPS))
        g = g + decay * w
        m = alpha * states[0] + (1 - alpha) * g
        v = beta * states[1] + (1 - beta) * g * g
        first, second = (w.dtype.type(1 - s.of(node) ** count) for s in (FIRST, SECOND))
        return w - rate * (m / first) / (np.sqrt(v / second) + eps), m, v
