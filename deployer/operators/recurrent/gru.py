"""GRU: gated recurrent units, in one direction or two."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.recurrent.layer import BIASES, RecurrentLayer, Weights
from deployer.operators.recurrent.parts import Parts
from deployer.operators.recurrent.steps.gru_recurrence import GATES, GRURecurrence
from deployer.operators.recurrent.steps.gru_state_recurrence import GRUStateRecurrence
from deployer.operators.recurrent.unrolled import Manner, Way

AFTER = "linear_before_reset"
"""ONNX's attribute: whether the reset gate is on the product with the state, as in PyTorch, or on the state itself."""


def is_after(node: Node) -> bool:
    """Whether the reset gate is on the product."""
    return bool(node.attr_int(AFTER, 0))


@register
class GRU(RecurrentLayer):
    """Gates update, reset, hidden; where `linear_before_reset` is set, the reset gate is on R h, else on h."""

    name = "GRU"
    versions = (7, 14, 22)
    gates = len(GATES)
    activations = (("Sigmoid", "Tanh"),)
    flags = ("layout", AFTER)
    trials = ({}, {AFTER: 1})
    rare: ClassVar = {
        "activations": ("HardSigmoid", "Elu", "Sigmoid", "ThresholdedRelu"),
        "activation_alpha": (0.25, 0.5, 0.125),
    }

    def cell(self, node: Node, manner: Manner, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """h' = (1 - z) n + z h."""
        [h] = states
        (x_z, x_r, x_n), (r_z, r_r, r_n), (b_z, b_r, b_n) = (
            np.split(v, len(GATES), axis=axis) for v, axis in ((x, 1), (weights.r, 0), (weights.bias, 0))
        )
        z, reset = manner.of(0, x_z + h @ r_z.T + b_z), manner.of(0, x_r + h @ r_r.T + b_r)
        product = reset * (h @ r_n.T + b_n) if is_after(node) else (reset * h) @ r_n.T + b_n
        return [np.asarray((1 - z) * manner.of(1, x_n + product) + z * h)]

    def apart(self, node: Node, parts: Parts, weights: Weights) -> Weights:
        """R of both gates and R of the hidden one, where the reset gate is on the state."""
        if is_after(node):
            return weights
        units = parts.sizes.units
        ends = (0, 2 * units, len(GATES) * units)
        return replace(weights, r=[parts.part(weights.r, 0, begin, end) for begin, end in pairwise(ends)])

    def step(
        self, node: Node, manner: Manner, parts: Parts, x: Sequence[str], states: Sequence[str], weights: Weights
    ) -> list[str]:
        """The same in nodes; h' = n + z (h - n)."""
        [h], (x_z, x_r, x_n) = states, x
        if is_after(node):
            bias = (weights.bias,) if weights.bias else ()
            r_z, r_r, r_n = parts.gates(parts.emit("Gemm", (h, weights.r, *bias), transB=1), len(GATES))
        else:
            r_z, r_r = parts.gates(parts.emit("Gemm", (h, weights.r[0]), transB=1), len(GATES) - 1)
        z, reset = (manner.emit(parts, 0, parts.emit("Add", pair)) for pair in ((x_z, r_z), (x_r, r_r)))
        if is_after(node):
            total = parts.emit("Add", (x_n, parts.emit("Mul", (reset, r_n))))
        else:
            total = parts.emit("Gemm", (parts.emit("Mul", (reset, h)), weights.r[1], x_n), transB=1)
        n = manner.emit(parts, 1, total)
        return [parts.emit("Add", (n, parts.emit("Mul", (z, parts.emit("Sub", (h, n))))))]

    def biases(self, node: Node, parts: Parts, bias: str) -> tuple[str, str]:
        """Apart where the reset gate is on the product with its bias."""
        if not bias or not is_after(node):
            return super().biases(node, parts, bias)
        apart = [parts.part(bias, 0, i, i + 1) for i in range(BIASES)]
        of_w, of_r = (parts.emit("Reshape", (name,), shape=(-1,)) for name in apart)
        return of_w, of_r

    def recurrence(self, node: Node, parts: Parts, way: Way, names: Sequence[str]) -> list[str]:
        """By where the reset gate is."""
        x, r, bias, h = names
        if is_after(node):
            return self.steps_of(parts, way, GRURecurrence(), (x, r, bias, h))
        return self.steps_of(parts, way, GRUStateRecurrence(), (x, r, h))
