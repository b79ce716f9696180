"""Momentum of ONNX's training domain: V' = alpha V + beta G, X' = X - R V', or X - R (G + alpha V') by Nesterov."""

from collections.abc import Sequence
from typing import ClassVar

from onnx import TensorProto

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, register, unsupported
from deployer.operators.preview.tensor_updates import DOMAIN, Sums, TensorUpdates, preview_form

MODES = ("standard", "nesterov")
NUMBERS = ("alpha", "beta", "norm_coefficient")


@register
class Momentum(TensorUpdates):
    """G has norm_coefficient X added; beta is 1 in the first update."""

    name = f"{DOMAIN}.Momentum"
    group = ("X", "G", "V")
    custom = preview_form(group, (*NUMBERS, "mode"), **dict.fromkeys(NUMBERS, "FLOAT"), mode="STRING")
    given: ClassVar = {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25, "mode": "nesterov"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each result has the type of its tensor."""
        if node.attr_str("mode", "") not in MODES:
            raise unsupported(node, f"its mode is {node.attr_str('mode', '')!r}", f"one of {', '.join(MODES)}")
        return super().infer(node, inputs)

    def step(self, node: Node, rate: Array, count: int, tensors: Sequence[Array]) -> Sequence[Array]:
        """X' and V'."""
        x, g, v = tensors
        alpha, beta, share = (x.dtype.type(node.attr_float(name, 0.0)) for name in NUMBERS)
        g = g + share * x
        v = alpha * v + (beta * g if count > 0 else g)
        return x - rate * (g + alpha * v if _leads(node) else v), v

    def rate(self, node: Node, sums: Sums) -> tuple[str, ...]:
        """R, and the share of the gradient, which is 1 in the first update."""
        begun = sums.of("Greater", sums.of("Cast", node.inputs[1], to=TensorProto.FLOAT), 0.0)
        return node.inputs[0], sums.of("Where", begun, node.attr_float("beta", 0.0), 1.0)

    def update(self, node: Node, sums: Sums, shared: Sequence[str], names: Sequence[str]) -> None:
        """The momentum, and the step along it."""
        (x, g, v, new_x, new_v), alpha = names, node.attr_float("alpha", 0.0)
        g = self.regularized(node, sums, x, g)
        sums.of("Add", sums.of("Mul", v, alpha), sums.of("Mul", g, shared[1]), output=new_v)
        step = sums.of("Add", g, sums.of("Mul", new_v, alpha)) if _leads(node) else new_v
        sums.of("Sub", x, sums.of("Mul", step, shared[0]), output=new_x)


def _leads(node: Node) -> bool:
    """Whether the step is Nesterov's."""
    return node.attr_str("mode", "") == "nesterov"
