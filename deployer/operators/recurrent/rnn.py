"""RNN: the plain recurrent layer, by tanh or relu, in one direction or two."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.layer import Parts, RecurrentLayer
from deployer.operators.recurrent.rnn_recurrence import FUNCTIONS, RNNRecurrence


@register
class RNN(RecurrentLayer):
    """h' = f(W X + R h + biases)."""

    name = "RNN"
    versions = (7, 14, 22)
    gates = 1
    activations = tuple((name,) for name in FUNCTIONS)

    def cell(self, node: Node, direction: int, x: Array, states: Sequence[Array], r: Array, bias: Array) -> list[Array]:
        """f(x + R h + bias)."""
        total = x + states[0] @ r.T + bias
        return [np.tanh(total) if self.functions(node, direction) == FUNCTIONS[:1] else np.maximum(total, 0)]

    def recurrence(self, node: Node, parts: Parts, direction: int, names: Sequence[str]) -> list[str]:
        """RNNRecurrence."""
        [activation] = self.functions(node, direction)
        x, r, _, h = names
        return self.steps_of(node, parts, direction, RNNRecurrence(), (x, r, h), activation=activation)
