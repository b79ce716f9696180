"""Adagrad of ONNX's training domain: H' = H + G^2, X' = X - R / (1 + decay_factor T) G / (sqrt(H') + epsilon)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.preview.tensor_updates import DOMAIN, Sums, TensorUpdates, preview_form

EPSILON = 1e-6


@register
class Adagrad(TensorUpdates):
    """G has norm_coefficient X added."""

    name = f"{DOMAIN}.Adagrad"
    group = ("X", "G", "H")
    custom = preview_form(group, norm_coefficient="FLOAT", decay_factor="FLOAT", epsilon="FLOAT")
    given: ClassVar = {"norm_coefficient": 0.5, "decay_factor": 0.25, "epsilon": 0.125}

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X' and H'."""
        x, g, h = tensors
        kind = x.dtype.type
        g = g + kind(node.attr_float("norm_coefficient", 0.0)) * x
        h = h + g * g
        slowed = rate / (1 + kind(count) * kind(node.attr_float("decay_factor", 0.0)))
        return x - slowed * g / (np.sqrt(h) + kind(node.attr_float("epsilon", EPSILON))), h

    def rate(self, node: Node, sums: Sums) -> tuple[str, ...]:
        """R / (1 + decay_factor T)."""
        decay = node.attr_float("decay_factor", 0.0)
        if not decay:
            return node.inputs[:1]
        count = sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT)
        return (sums.of("Div", node.inputs[0], sums.of("Add", sums.of("Mul", count, decay), 1.0)),)

    def update(self, node: Node, sums: Sums, shared: Sequence[str], names: Sequence[str]) -> None:
        """The sum of squares, and the step by its root."""
        x, g, h, new_x, new_h = names
        g = self.regularized(node, sums, x, g)
        sums.of("Add", h, sums.of("Mul", g, g), output=new_h)
        root = sums.of("Add", sums.of("Sqrt", new_h), node.attr_float("epsilon", EPSILON))
        sums.of("Sub", x, sums.of("Div", sums.of("Mul", g, shared[0]), root), output=new_x)
