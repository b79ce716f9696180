"""Gelu: Y = X Phi(X), Phi being the normal distribution: the exact form, by erf."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, Work, register, rng, unsupported
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal


@register
class Gelu(Flat):
    """Elementwise; `approximate` is "none"."""

    name = "Gelu"
    versions = (20,)
    custom = Form((1, 1), (1, 1))
    kernel = Kernel("gelu_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if node.attr_str("approximate", "none") != "none":
            raise unsupported(node, f"approximate is {node.attrs['approximate']!r}", "the exact form, 'none'")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X (1 + erf(X / sqrt(2))) / 2."""
        x = arrays(inputs, 1)[0]
        return (np.asarray(x * distribution(x)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GeluGrad of X."""
        if b.needs_grad(0):
            b.emit("GeluGrad", (douts[0], node.inputs[0]), (b.grad(0),))

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An error function per element."""
        return Work(macs=0, elements=tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both signs, a shape that no tile divides, and values far from zero."""
        r = rng(91)
        yield Sample("vector", (normal(r, 37),))
        yield Sample("matrix", (normal(r, 5, 7),))
        yield Sample("wide", (np.linspace(-12, 12, 41, dtype=np.float32),), {"approximate": "none"})


def distribution(x: Array) -> Array:
    """The normal distribution in the dtype of x, from float64."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray((1 + erf(x / np.sqrt(2.0))) / 2, x.dtype)
