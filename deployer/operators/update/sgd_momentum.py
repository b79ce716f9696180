"""SGDMomentum: v' = momentum v + g and w' = w - lr v', with decay of the weight, all in place.

The formula is that of PyTorch's SGD with dampening 0; Nesterov's rule is that of Sutskever et al., On the importance of
initialization and momentum in deep learning, 2013, in the form that needs the gradient at w alone.
"""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.declarations import Optimizer, Setting, State
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, register, unsupported
from deployer.operators.update.weight_update import DECAY, MOMENTUM, RATE, WeightUpdate, update_form, update_kernel

NESTEROV = Setting("nesterov", "step from where the momentum leads", 0, switch=True)
SETTINGS = (DECAY, MOMENTUM, NESTEROV)


@register
class SGDMomentum(WeightUpdate):
    """Gradient descent with momentum, which is kept per weight."""

    name = "SGDMomentum"
    optimizer = Optimizer("sgd", rate=RATE.place, states={2: State("_momentum")}, settings=SETTINGS, usual=True)
    custom = update_form(optimizer)
    kernel = update_kernel("sgd_momentum_f32", ("v",), SETTINGS)
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    flags = (NESTEROV.place,)
    cost = 2
    given: ClassVar = {"lr": 0.125, "weight_decay": 0.5, "momentum": 0.75, "nesterov": 1}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and momentum, of the gradient's type; Nesterov's rule needs a momentum."""
        if NESTEROV.of(node) and not MOMENTUM.of(node):
            raise unsupported(node, "nesterov with momentum 0", "a momentum above 0, or no nesterov")
        return super().infer(node, inputs)

    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The weight by v, or by g + momentum v, and v."""
        rate, decay, share = (w.dtype.type(s.of(node)) for s in (RATE, DECAY, MOMENTUM))
        g = g + decay * w
        v = share * states[0] + g
        return w - rate * (g + share * v if NESTEROV.of(node) else v), v
