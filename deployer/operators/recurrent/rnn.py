"""RNN: the plain recurrent layer, by tanh or relu, in one direction or two."""

from collections.abc import Sequence
from typing import ClassVar

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.layer import RecurrentLayer, Weights
from deployer.operators.recurrent.parts import Parts
from deployer.operators.recurrent.steps.rnn_recurrence import FUNCTIONS, RNNRecurrence
from deployer.operators.recurrent.unrolled import Manner, Way


@register
class RNN(RecurrentLayer):
    """h' = f(W X + R h + biases)."""

    name = "RNN"
    versions = (7, 14, 22)
    gates = 1
    activations = tuple((name,) for name in FUNCTIONS)
    rare: ClassVar = {"activations": ("Softplus", "Elu"), "activation_alpha": (0.5,)}

    def cell(self, node: Node, manner: Manner, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """f(x + R h + bias)."""
        return [manner.of(0, x + states[0] @ weights.r.T + weights.bias)]

    def step(
        self, node: Node, manner: Manner, parts: Parts, x: Sequence[str], states: Sequence[str], weights: Weights
    ) -> list[str]:
        """The same in nodes."""
        return [manner.emit(parts, 0, parts.emit("Gemm", (states[0], weights.r, *x), transB=1))]

    def recurrence(self, node: Node, parts: Parts, way: Way, names: Sequence[str]) -> list[str]:
        """RNNRecurrence."""
        [activation] = way.manner.functions
        [name] = (name for name in FUNCTIONS if name.lower() == activation.name)
        x, r, _, h = names
        return self.steps_of(parts, way, RNNRecurrence(), (x, r, h), activation=name)
