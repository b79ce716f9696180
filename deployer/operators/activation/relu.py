"""Relu: Y = max(X, 0)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.declarations import Borders, Finish
from deployer.core.forms import CONSUMED, Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Extent,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Work,
    mismatch,
    register,
    rng,
)

FINISH = Finish(scalar="relu")


@register
class Relu(Operator):
    """Elementwise; NaN stays NaN."""

    name = "Relu"
    versions = (6, 13, 14)
    older: ClassVar[dict[int, Rule]] = {1: CONSUMED}
    finish = FINISH
    kernel = Kernel("relu_f32", pointers=(("x", "float32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y has the type of X."""
        if inputs[0] is None:
            raise mismatch(node, "X is absent", inputs)
        return (inputs[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """max(X, 0)."""
        x = inputs[0]
        assert x is not None
        return (np.maximum(x, x.dtype.type(0)),)

    def borders(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Borders, ...]:
        """Each element decides whether its gradient passes."""
        x = inputs[0]
        assert x is not None
        flat = x.reshape(-1)
        least = np.finfo(np.float32).tiny
        return (Borders(0, np.arange(flat.size), np.abs(flat), np.where(flat > 0, 0.0, least)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY where Y > 0."""
        b.emit("ReluGrad", (douts[0], node.outputs[0]), (b.grad(0),))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.outputs[0]].size
        x = Operand("x", node.inputs[0], "in", (size,), (At("n"),))
        y = Operand("y", node.outputs[0], "out", (size,), (At("n"),))
        return Access((Dim("n", size),), (x, y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One operation per element."""
        return Work(macs=0, elements=tile["n"], parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Both signs, and a shape that no tile divides."""
        yield Sample("vector", (rng(2).standard_normal(37).astype(np.float32),))
        yield Sample("matrix", (rng(3).standard_normal((5, 7)).astype(np.float32),))
