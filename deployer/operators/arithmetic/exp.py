"""Exp: Y = e^X."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import CONSUMED, Rule
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, Work, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal


@register
class Exp(Flat):
    """Elementwise."""

    name = "Exp"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    kernel = Kernel("exp_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's."""
        with np.errstate(over="ignore"):
            return (np.exp(arrays(inputs, 1)[0]),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY Y."""
        if b.needs_grad(0):
            b.emit("Mul", (douts[0], node.outputs[0]), (b.grad(0),))

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An exponential per element."""
        return Work(macs=0, elements=tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both signs, and a shape that no tile divides."""
        r = rng(101)
        yield Sample("vector", (normal(r, 37),))
        yield Sample("matrix", (normal(r, 5, 7),))
