"""GRU: gated recurrent units, in one direction or two."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.gru_recurrence import AFTER, GATES, GRURecurrence, is_after
from deployer.operators.recurrent.layer import BIASES, Parts, RecurrentLayer
from deployer.operators.recurrent.recurrence import sigmoid


@register
class GRU(RecurrentLayer):
    """Gates update, reset, hidden; where `linear_before_reset` is set, the reset gate is on R h, else on h."""

    name = "GRU"
    versions = (7, 14, 22)
    gates = len(GATES)
    activations = (("Sigmoid", "Tanh"),)
    flags = ("layout", AFTER)
    trials = ({}, {AFTER: 1})

    def cell(self, node: Node, direction: int, x: Array, states: Sequence[Array], r: Array, bias: Array) -> list[Array]:
        """h' = (1 - z) n + z h."""
        [h] = states
        (x_z, x_r, x_n), (r_z, r_r, r_n), (b_z, b_r, b_n) = (
            np.split(v, len(GATES), axis=axis) for v, axis in ((x, 1), (r, 0), (bias, 0))
        )
        z, reset = sigmoid(x_z + h @ r_z.T + b_z), sigmoid(x_r + h @ r_r.T + b_r)
        product = reset * (h @ r_n.T + b_n) if is_after(node) else (reset * h) @ r_n.T + b_n
        return [np.asarray((1 - z) * np.tanh(x_n + product) + z * h)]

    def biases(self, node: Node, parts: Parts, bias: str) -> tuple[str, str]:
        """Apart where the reset gate is on the product with its bias."""
        if not bias or not is_after(node):
            return super().biases(node, parts, bias)
        apart = [parts.part(bias, 0, i, i + 1) for i in range(BIASES)]
        of_w, of_r = (parts.emit("Reshape", (name,), shape=(-1,)) for name in apart)
        return of_w, of_r

    def recurrence(self, node: Node, parts: Parts, direction: int, names: Sequence[str]) -> list[str]:
        """GRURecurrence."""
        after = int(is_after(node))
        return self.steps_of(node, parts, direction, GRURecurrence(), names, **{AFTER: after})
