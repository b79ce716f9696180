"""MomentumSGD: v' = momentum * v + g and w' = w - lr * v', both in place."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Optimizer, State
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Extent, Kernel, Sample, mismatch, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal, operands


@register
class MomentumSGD(Flat):
    """Gradient descent with momentum; attributes `lr` and `momentum`."""

    name = "MomentumSGD"
    domain = "org.outside"
    custom = Form((3, 3), (1, 2), {"lr": "FLOAT", "momentum": "FLOAT"})
    optimizer = Optimizer("momentum", rate="lr", states={2: State("_velocity")})
    kernel = Kernel(
        "momentum_sgd_f32",
        pointers=(("w", "float32", True), ("g", "float32", False), ("v", "float32", True)),
        scalars=(("n", "u32"), ("lr", "f32"), ("momentum", "f32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 2}
    no_gradient = "it is an optimizer"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and velocity, of the gradient's type."""
        w, g, v = operands(node, inputs, 3)
        if not w == g == v:
            raise mismatch(node, "weight, gradient and velocity differ in type", inputs)
        return w, v

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The updated weight and velocity."""
        w, g, v = arrays(inputs, 3)
        rate, share = (w.dtype.type(value) for value in _rates(node))
        changed = share * v + g
        return np.asarray(w - rate * changed), np.asarray(changed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and both rates."""
        rate, share = _rates(node)
        return {"n": Extent("n"), "lr": Const(rate), "momentum": Const(share)}

    def samples(self) -> Iterator[Sample]:
        """Given rates."""
        r = rng(103)
        given = {"lr": 0.125, "momentum": 0.5}
        yield Sample("rates", (normal(r, 37), normal(r, 37), normal(r, 37)), given, outputs=2, onnx=False)


def _rates(node: Node) -> tuple[float, float]:
    return node.attr_float("lr", 0.01), node.attr_float("momentum", 0.9)
