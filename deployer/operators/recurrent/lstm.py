"""LSTM: long short-term memory, in one direction or two."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, register, unsupported
from deployer.operators.recurrent.layer import Parts, RecurrentLayer
from deployer.operators.recurrent.lstm_recurrence import GATES, LSTMRecurrence
from deployer.operators.recurrent.recurrence import sigmoid


@register
class LSTM(RecurrentLayer):
    """Gates input, output, forget, cell; two states, h and c."""

    name = "LSTM"
    versions = (7, 14, 22)
    gates = len(GATES)
    states = 2
    activations = (("Sigmoid", "Tanh", "Tanh"),)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y, Y_h and Y_c."""
        if node.attr_int("input_forget", 0):
            raise unsupported(node, "input_forget couples its gates", "input_forget 0")
        return super().infer(node, inputs)

    def cell(self, node: Node, direction: int, x: Array, states: Sequence[Array], r: Array, bias: Array) -> list[Array]:
        """c' = f c + i g, h' = o tanh(c')."""
        h, c = states
        i, o, f, g = np.split(x + h @ r.T + bias, len(GATES), axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return [np.asarray(sigmoid(o) * np.tanh(c)), np.asarray(c)]

    def recurrence(self, node: Node, parts: Parts, direction: int, names: Sequence[str]) -> list[str]:
        """LSTMRecurrence; c of the end is always one of its results, as the steps hand it on there."""
        x, r, _, h, c = names
        return self.steps_of(node, parts, direction, LSTMRecurrence(), (x, r, h, c))
