"""LSTM: long short-term memory, in one direction or two."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.layer import RecurrentLayer, Weights
from deployer.operators.recurrent.parts import Parts
from deployer.operators.recurrent.steps.lstm_recurrence import GATES, LSTMRecurrence
from deployer.operators.recurrent.unrolled import Manner, Way

SATURATED = 1e30
"""A sum of which sigmoid makes 1, and of its negative 0, whatever product is added."""


@register
class LSTM(RecurrentLayer):
    """Gates input, output, forget, cell; two states, h and c."""

    name = "LSTM"
    versions = (7, 14, 22)
    gates = len(GATES)
    states = 2
    activations = (("Sigmoid", "Tanh", "Tanh"),)
    peepholes = len(GATES) - 1
    held = (-SATURATED, 0.0, SATURATED, 0.0)
    flags = ("layout", "input_forget")
    rare: ClassVar = {
        "activations": ("HardSigmoid", "Softsign", "LeakyRelu", "Sigmoid", "ScaledTanh", "Affine"),
        "activation_alpha": (0.25, 0.125, 1.5, 0.5),
        "activation_beta": (0.375, 0.75, 0.0625),
    }
    written = ({"input_forget": 1},)

    def cell(self, node: Node, manner: Manner, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """c' = f c + i g, h' = o act(c'); peepholes of i and f are on c, that of o is on c'."""
        h, c = states
        i, o, f, g = np.split(x + h @ weights.r.T + weights.bias, len(GATES), axis=1)
        of_i, of_o, of_f = (0, 0, 0) if weights.peepholes is None else np.split(weights.peepholes, self.peepholes)
        i = manner.of(0, i + of_i * c)
        f = 1 - i if manner.coupled else manner.of(0, f + of_f * c)
        c = f * c + i * manner.of(1, g)
        return [np.asarray(manner.of(0, o + of_o * c) * manner.of(2, c)), np.asarray(c)]

    def apart(self, node: Node, parts: Parts, weights: Weights) -> Weights:
        """Peepholes of each gate by themselves."""
        return replace(
            weights, peepholes=parts.gates(weights.peepholes, self.peepholes, 0) if weights.peepholes else ()
        )

    def step(
        self, node: Node, manner: Manner, parts: Parts, x: Sequence[str], states: Sequence[str], weights: Weights
    ) -> list[str]:
        """The same in nodes."""
        h, c = states
        sums = parts.gates(parts.emit("Gemm", (h, weights.r), transB=1), len(GATES))
        i, o, f, g = (parts.emit("Add", pair) for pair in zip(x, sums, strict=True))
        of_i, of_o, of_f = weights.peepholes or ("", "", "")

        def gate(total: str, peephole: str, cell: str) -> str:
            seen = parts.emit("Add", (total, parts.emit("Mul", (cell, peephole)))) if peephole else total
            return manner.emit(parts, 0, seen)

        i = gate(i, of_i, c)
        f = parts.emit("Sub", (parts.number(1.0), i)) if manner.coupled else gate(f, of_f, c)
        kept, added = parts.emit("Mul", (f, c)), parts.emit("Mul", (i, manner.emit(parts, 1, g)))
        c = parts.emit("Add", (kept, added))
        return [parts.emit("Mul", (gate(o, of_o, c), manner.emit(parts, 2, c))), c]

    def recurrence(self, node: Node, parts: Parts, way: Way, names: Sequence[str]) -> list[str]:
        """LSTMRecurrence; c of the end is always one of its results, as the steps hand it on there."""
        x, r, _, h, c = names
        return self.steps_of(parts, way, LSTMRecurrence(), (x, r, h, c))
