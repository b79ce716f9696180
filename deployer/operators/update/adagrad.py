"""Adagrad: v' = v + g^2 and w' = w - lr g / (sqrt(v') + eps), in place.

Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011, with a
diagonal matrix; epsilon is added to the root as PyTorch does.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Optimizer, State
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.update.weight_update import DECAY, EPS, RATE, WeightUpdate, update_form, update_kernel

LATE = replace(EPS, default=1e-10)
SETTINGS = (LATE, DECAY)


@register
class Adagrad(WeightUpdate):
    """The sum of the gradient's squares is kept per weight."""

    name = "Adagrad"
    optimizer = Optimizer("adagrad", rate=RATE.place, states={2: State("_square_sum")}, settings=SETTINGS)
    custom = update_form(optimizer)
    kernel = update_kernel("adagrad_f32", ("v",), SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    cost = FACTS.transcendental
    given: ClassVar = {"lr": 0.125, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and the sum of squares."""
        rate, decay, eps = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, LATE))
        g = g + decay * w
        v = states[0] + g * g
        return w - rate * g / (np.sqrt(v) + eps), v
