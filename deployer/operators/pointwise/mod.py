"""Mod: the remainder of A by B, with the sign of A where `fmod` is 1, else with that of B."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, unsupported
from deployer.formulas.tree import Input, call
from deployer.operators.declared import A, B, Spread, declare
from deployer.operators.inputs import arrays
from deployer.operators.pointwise.floor_mod import FloorMod


@declare
class Mod(Spread):
    """Elementwise; before version 28 ONNX demands `fmod` 1 of floats, and FloorMod is what they have without it."""

    name = "Mod"
    versions = (10, 13, 28)
    operands = (A, B)
    formula = call("remainder", A, B)
    kinks: ClassVar = {"a": (call("round", A / B) * B,), "b": (A / call("round", A / B),)}
    integers = True
    at_run_time = "IntegerMod"
    flags = ("fmod",)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """FloorMod for floats without `fmod`."""
        (y,) = self.infer(node, inputs)
        if y.dtype == "float32" and not node.attr_int("fmod", 0):
            return [Node(node.name, "FloorMod", node.inputs, node.outputs)]
        return super().lower(node, inputs)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """That of the remainder, or of FloorMod."""
        if node.attr_int("fmod", 0):
            super().gradient(node, douts, b)
        else:
            FloorMod().gradient(node, douts, b)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's; UnsupportedOperator where an integer is divided by zero."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind != "f" and (b == 0).any():
            raise unsupported(node, "an integer is divided by zero", "other constants, or floats")
        if not node.attr_int("fmod", 0):
            return (np.asarray(np.mod(a, b)),)
        return super().reference(node, inputs)

    def attributes(self) -> Iterator[tuple[str, dict[str, AttrValue]]]:
        """What floats have."""
        yield "", {"fmod": 1}

    def samples(self) -> Iterator[Sample]:
        """Those of all attributes, and floats without `fmod`, which ONNX Runtime does not have."""
        yield from super().samples()
        yield Sample("floor", next(FloorMod().samples()).inputs, onnx=False)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Dividends on both sides of several divisors, which are at a distance from zero."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x * 3 if operand == A else x + np.copysign(np.float32(0.5), x), np.float32)
