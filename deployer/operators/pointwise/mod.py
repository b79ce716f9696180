"""Mod: the remainder of A by B, with the sign of A where `fmod` is 1, else with that of B."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, unsupported
from deployer.formulas.tree import Input, call
from deployer.operators.declared import A, B, Spread, declare
from deployer.operators.inputs import arrays


@declare
class Mod(Spread):
    """Elementwise; floats have `fmod` 1, as ONNX demands of them before version 28."""

    name = "Mod"
    versions = (10, 13, 28)
    operands = (A, B)
    formula = call("remainder", A, B)
    kinks: ClassVar = {"a": (call("round", A / B) * B,), "b": (A / call("round", A / B),)}
    integers = True
    at_run_time = "IntegerMod"
    flags = ("fmod",)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape; UnsupportedOperator for floats without `fmod`."""
        (y,) = super().infer(node, inputs)
        if y.dtype == "float32" and not node.attr_int("fmod", 0):
            raise unsupported(node, "fmod is 0, and its operands are floats", "fmod 1")
        return (y,)

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

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Dividends on both sides of several divisors, which are at a distance from zero."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x * 3 if operand == A else x + np.copysign(np.float32(0.5), x), np.float32)
