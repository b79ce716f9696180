"""Gelu: Y = X Phi(X), Phi being the normal distribution, by erf or by an approximation with tanh."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, Work, register, registry, rng, unsupported
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, floats, normal


@register
class Gelu(Flat):
    """Elementwise; `approximate` is "none" or "tanh"."""

    name = "Gelu"
    versions = (20,)
    custom = Form((1, 1), (1, 1))
    kernel = Kernel("gelu_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if node.attr_str("approximate", "none") not in ("none", "tanh"):
            raise unsupported(node, f"approximate is {node.attrs['approximate']!r}", "'none' or 'tanh'")
        return (floats(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X (1 + erf(X / sqrt(2))) / 2, or its approximation."""
        if _approximate(node):
            return registry()[_TANH].reference(_plain(node), inputs)
        x = arrays(inputs, 1)[0]
        return (np.asarray(x * distribution(x)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """GeluGrad of X, or the gradient of the approximation."""
        if _approximate(node):
            registry()[_TANH].gradient(_plain(node), douts, b)
        elif b.needs_grad(0):
            b.emit("GeluGrad", (douts[0], node.inputs[0]), (b.grad(0),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The approximation is an operator of its own."""
        return [_plain(node)] if _approximate(node) else None

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An error function per element."""
        return Work(macs=0, elements=tile["n"] * FACTS.transcendental, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both signs, a shape that no tile divides, and values far from zero."""
        r = rng(91)
        yield Sample("vector", (normal(r, 37),))
        yield Sample("matrix", (normal(r, 5, 7),))
        yield Sample("wide", (np.linspace(-12, 12, 41, dtype=np.float32),), {"approximate": "none"})
        yield Sample("tanh", (normal(r, 37),), {"approximate": "tanh"})


_TANH = "GeluTanh"
"""The operator of the approximation."""


def _approximate(node: Node) -> bool:
    return node.attr_str("approximate", "none") == "tanh"


def _plain(node: Node) -> Node:
    """The node as one of the approximation's operator."""
    return replace(node, op=_TANH, attrs={})


def distribution(x: Array) -> Array:
    """The normal distribution in the dtype of x, from float64."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return np.asarray((1 + erf(x / np.sqrt(2.0))) / 2, x.dtype)
