"""Log: Y = ln X."""

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
class Log(Flat):
    """Elementwise."""

    name = "Log"
    versions = (6, 13)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    kernel = Kernel("log_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.log(arrays(inputs, 1)[0]),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY / X."""
        if b.needs_grad(0):
            b.emit("Div", (douts[0], node.inputs[0]), (b.grad(0),))

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A logarithm per element."""
        return Work(macs=0, elements=tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both sides of one, and a shape that no tile divides."""
        r = rng(102)
        yield Sample("vector", (np.exp(normal(r, 37)),))
        yield Sample("matrix", (np.exp(normal(r, 5, 7)),))
