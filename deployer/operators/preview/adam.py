"""Adam of ONNX's training domain: V' = alpha V + (1 - alpha) G, H' = beta H + (1 - beta) G^2, and the step by both.

X' = (1 - norm_coefficient_post) (X - R' V' / (sqrt(H') + epsilon)), with R' = R sqrt(1 - beta^T) / (1 - alpha^T), or R
where T is 0.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, register, unsupported
from deployer.operators.preview.tensor_updates import DOMAIN, Sums, TensorUpdates, preview_form

NUMBERS = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}
"""Attributes with ONNX's defaults."""


@register
class Adam(TensorUpdates):
    """G has norm_coefficient X added."""

    name = f"{DOMAIN}.Adam"
    group = ("X", "G", "V", "H")
    custom = preview_form(group, **dict.fromkeys(NUMBERS, "FLOAT"))
    given: ClassVar = dict(zip(NUMBERS, (0.5, 0.75, 0.25, 0.5, 0.125), strict=True))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor; alpha and beta are shares."""
        for name in ("alpha", "beta"):
            if not 0 <= _number(node, name) < 1:
                raise unsupported(node, f"{name} is {_number(node, name):g}", f"{name} from 0 to below 1")
        return super().infer(node, inputs)

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X', V' and H'."""
        x, g, v, h = tensors
        alpha, beta, epsilon, before, after = (x.dtype.type(_number(node, name)) for name in NUMBERS)
        g = g + before * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        if count > 0:
            first, second = (1 - _number(node, name) ** count for name in ("alpha", "beta"))
            rate = rate * x.dtype.type(math.sqrt(second) / first)
        return (1 - after) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h

    def rate(self, node: Node, sums: Sums) -> tuple[str, ...]:
        """R' where there was an update, else R."""
        count = sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT)
        made = sums.of("Max", count, 1.0)
        first, second = (_complement(sums, made, _number(node, name)) for name in ("alpha", "beta"))
        corrected = sums.of("Mul", node.inputs[0], sums.of("Div", sums.of("Sqrt", second), first))
        return (sums.of("Where", sums.of("Greater", count, 0.0), corrected, node.inputs[0]),)

    def update(self, node: Node, sums: Sums, shared: Sequence[str], names: Sequence[str]) -> None:
        """Both moments, and the step by them."""
        x, g, v, h, new_x, new_v, new_h = names
        alpha, beta, epsilon, _, after = (_number(node, name) for name in NUMBERS)
        g = self.regularized(node, sums, x, g)
        sums.weighted(alpha, v, 1 - alpha, g, new_v)
        sums.weighted(beta, h, 1 - beta, sums.of("Mul", g, g), new_h)
        root = sums.of("Add", sums.of("Sqrt", new_h), epsilon)
        step = sums.of("Div", sums.of("Mul", new_v, shared[0]), root)
        moved = sums.of("Sub", x, step, output="" if after else new_x)
        if after:
            sums.of("Mul", moved, 1 - after, output=new_x)


def _number(node: Node, name: str) -> float:
    return float(np.float32(node.attr_float(name, NUMBERS[name])))


def _complement(sums: Sums, count: str, share: float) -> str:
    """1 - share^T, as accurate for a share near 1: 2 t / (1 + t) with t = tanh(-T log(share) / 2)."""
    if not share:
        return sums.number(1.0)
    t = sums.of("Tanh", sums.of("Mul", count, -math.log(share) / 2))
    return sums.of("Div", sums.of("Mul", t, 2.0), sums.of("Add", t, 1.0))
