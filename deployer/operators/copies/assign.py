"""Assign: a state, which lasts from pass to pass, becomes a value that the pass has computed, in place."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Kernel, Sample, register, rng
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal


@register
class Assign(Flat):
    """state, X to X; nothing reads the old state behind it."""

    name = "Assign"
    custom = Form((2, 2), (0, 1))
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "what lasts from pass to pass is no part of a gradient"
    moved = ("state", "x")
    kernel = Kernel("assign_f32", (("state", "float32", True), ("x", "float32", False)), (("n", "u32"),))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X."""
        return (arrays(inputs, 2)[1].copy(),)

    def samples(self) -> Iterator[Sample]:
        """Floats and integers."""
        r = rng(231)
        yield Sample("floats", (normal(r, 37), normal(r, 37)), onnx=False)
        yield Sample("matrix", (normal(r, 5, 7), normal(r, 5, 7)), onnx=False)
        yield Sample(
            "integers", (np.arange(5, dtype=np.int32), np.array([7, -1, 2**31 - 1, -(2**31), 0], np.int32)), onnx=False
        )
