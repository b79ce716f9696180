"""Div: Y = A / B with numpy broadcasting."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import FLOAT32_MAX
from deployer.core.forms import Rule
from deployer.core.ir import Node
from deployer.core.operator import Array, GradientBuilder, Sample, register, unsupported
from deployer.operators.elementwise import Binary, binary_kernel, binary_samples, limited
from deployer.operators.inputs import arrays


@register
class Div(Binary):
    """Elementwise quotient; integers divide towards zero."""

    name = "Div"
    overflow = "any"
    at_run_time = "IntegerDiv"
    versions = (7, 13, 14)
    older: ClassVar[dict[int, Rule]] = {1: limited, 6: limited}
    kernel = binary_kernel("div_f32")

    def apply(self, a: Array, b: Array) -> Array:
        """A / B; of integers rounded towards zero: the floor, plus one where a quotient is negative and not exact."""
        if a.dtype.kind == "f":
            with np.errstate(all="ignore"):
                return a / b
        floor = a // b
        return np.asarray(floor + ((floor * b != a) & ((a < 0) != (b < 0))))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """A / B; UnsupportedOperator where integers have no quotient."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind != "f" and ((b == 0) | ((b == -1) & (a == np.iinfo(a.dtype).min))).any():
            raise unsupported(node, "an integer is divided by zero, or overflows", "other constants, or floats")
        return super().reference(node, inputs)

    def multiple(self, numbers: Mapping[int, float]) -> tuple[int, float] | None:
        """The dividend times the reciprocal of a power of two, which is a float32; other reciprocals are rounded."""
        divisor = numbers.get(1, math.nan)
        if abs(math.frexp(divisor)[0]) != 0.5 or abs(1 / divisor) > FLOAT32_MAX:
            return None
        return 0, 1 / divisor

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dA = dY / B, dB = -dY Y / B, summed over the axes each was broadcast along."""
        dividend, divisor = node.inputs
        if b.needs_grad(0):
            quotient = b.temp("quotient")
            b.emit("Div", (douts[0], divisor), (quotient,))
            b.reduce_to(quotient, b.type(dividend).shape, b.grad(0))
        if b.needs_grad(1):
            product, quotient, negative = b.temp("product"), b.temp("quotient"), b.temp("negative")
            b.emit("Mul", (douts[0], node.outputs[0]), (product,))
            b.emit("Div", (product, divisor), (quotient,))
            b.emit("Mul", (quotient, b.constant("minus_one", np.array(-1, np.float32))), (negative,))
            b.reduce_to(negative, b.type(divisor).shape, b.grad(1))

    def samples(self) -> Iterator[Sample]:
        """Divisors at a distance from zero."""
        for s in binary_samples(17):
            a, b = arrays(s.inputs, 2)
            yield Sample(s.label, (a, np.asarray(b + 2 * np.sign(b), np.float32)))
