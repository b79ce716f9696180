"""RMSprop: v' = alpha v + (1 - alpha) g^2 and w' = w - lr g / (sqrt(v') + eps), in place.

Tieleman and Hinton, Neural networks for machine learning, lecture 6.5, 2012; epsilon is added to the root as PyTorch
does.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Optimizer, Setting, State
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, register
from deployer.operators.update.weight_update import DECAY, EPS, RATE, WeightUpdate, update_form, update_kernel

ALPHA = Setting("alpha", "share that the mean of the gradient's square keeps", 0.99, most=1.0)
SETTINGS = (ALPHA, EPS, DECAY)
SQUARE = State("_square_mean")


def divided(node: Node, w: Array, g: Array, v: Array) -> tuple[Array, Array]:
    """The gradient by the root of the mean of its square, and that mean."""
    decay, alpha, eps = (w.dtype.type(s.of(node)) for s in (DECAY, ALPHA, EPS))
    g = g + decay * w
    v = np.asarray(alpha * v + (1 - alpha) * g * g)
    return np.asarray(g / (np.sqrt(v) + eps)), v


@register
class RMSprop(WeightUpdate):
    """The mean of the gradient's square is kept per weight."""

    name = "RMSprop"
    optimizer = Optimizer("rmsprop", rate=RATE.place, states={2: SQUARE}, settings=SETTINGS)
    custom = update_form(optimizer)
    kernel = update_kernel("rmsprop_f32", ("v",), SETTINGS, (ALPHA.place,))
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    cost = FACTS.transcendental
    given: ClassVar = {"lr": 0.125, "alpha": 0.75, "eps": 0.25, "weight_decay": 0.5}

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and the mean of the square."""
        step, v = divided(node, w, g, states[0])
        return w - w.dtype.type(RATE.of(node)) * step, v
