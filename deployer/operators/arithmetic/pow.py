"""Pow: Y = A ^ B with numpy broadcasting."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.access import Access
from deployer.core.errors import NotDifferentiable
from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Sample, Work, register, rng, unsupported
from deployer.operators.elementwise import Binary, binary_kernel, binary_samples, limited
from deployer.operators.inputs import arrays, operands

ROOT = 0.5
"""The exponent by which -0 becomes 0 and minus infinity infinity; the root of these is -0 and NaN."""


@register
class Pow(Binary):
    """Elementwise power; a negative base has integer exponents, else the result is NaN."""

    name = "Pow"
    overflow = "any"
    at_run_time = "IntegerPow"
    versions = (7, 12, 13, 15)
    older: ClassVar[dict[int, Rule]] = {1: limited}
    kernel = binary_kernel("pow_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A ^ B as in C's Annex F; numpy takes the root for an exponent of 0.5 that all share, -0 and NaN included."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((b == ROOT) & np.isin(a, (0.0, -math.inf)), np.abs(a), np.power(a, b))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape, of A's type; a float's exponent may be an integer."""
        a, b = operands(node, inputs, 2)
        return super().infer(node, (a, TensorType(a.dtype, b.shape) if a.dtype == "float32" else b))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """An integer exponent of a float becomes a float first."""
        a, b = operands(node, inputs, 2)
        if (a.dtype, b.dtype) != ("float32", "int32"):
            return super().lower(node, inputs)
        exponent = f"{node.name}/exponent"
        return [
            Node(exponent, "Cast", node.inputs[1:], (exponent,), {"to": TensorProto.FLOAT}),
            replace(node, inputs=(node.inputs[0], exponent)),
        ]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A ^ B; UnsupportedOperator for integers with negative exponents, whose powers are not integers."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind == "f":
            inputs = (a, b.astype(a.dtype))
        if a.dtype.kind != "f" and (b < 0).any():
            raise unsupported(node, "an integer has a negative exponent", "float operands")
        return super().reference(node, inputs)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY B A^(B - 1), summed over the axes A was broadcast along."""
        base, exponent = node.inputs
        if b.needs_grad(1):
            raise NotDifferentiable(f"node {node.name!r} (Pow) has no gradient with respect to the exponent")
        if b.needs_grad(0):
            if b.type(exponent).dtype != "float32":
                exponent = b.temp("exponent")
                b.emit("Cast", node.inputs[1:], (exponent,), to=TensorProto.FLOAT)
            reduced_exponent, power, slope, product = (b.temp(label) for label in ("less", "power", "slope", "product"))
            b.emit("Sub", (exponent, b.constant("one", np.array(1, np.float32))), (reduced_exponent,))
            b.emit("Pow", (base, reduced_exponent), (power,))
            b.emit("Mul", (power, exponent), (slope,))
            b.emit("Mul", (douts[0], slope), (product,))
            b.reduce_to(product, b.type(base).shape, b.grad(0))

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A logarithm and an exponential per output element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * 2 * FACTS.transcendental, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Positive bases with any exponent; small integer and half exponents; negative bases."""
        r = rng(18)
        for s in binary_samples(19):
            a, b = arrays(s.inputs, 2)
            yield Sample(s.label, (np.asarray(np.abs(a) + 0.125, np.float32), b))
        base = np.asarray(r.uniform(0.25, 4, 13), np.float32)
        for exponent in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, -3.0):
            yield Sample(f"exponent_{exponent}", (base, np.array(exponent, np.float32)))
        for exponent in (2.0, 3.0, -2.0, 11.0, 0.3):
            yield Sample(f"negative_{exponent}", (-base, np.array(exponent, np.float32)))
