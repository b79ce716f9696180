"""Softsign: Y = X / (1 + |X|)."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal


@register
class Softsign(Flat):
    """Elementwise."""

    name = "Softsign"
    versions = (1, 22)
    kernel = Kernel("softsign_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y has the type of X."""
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X / (1 + |X|)."""
        (x,) = arrays(inputs, 1)
        return (np.asarray(x / (x.dtype.type(1) + np.abs(x))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY (1 - |Y|)^2."""
        b.emit("SoftsignGrad", (douts[0], node.outputs[0]), (b.grad(0),))

    def samples(self) -> Iterator[Sample]:
        """Both signs."""
        yield Sample("vector", (normal(rng(101), 37),))
