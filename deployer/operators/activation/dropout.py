"""Dropout: Y = X, as at inference; a training mode that drops elements is refused."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule, without
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands


def _copy(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 12 it drops nothing at inference, whatever `ratio` says."""
    return [without(node, "consumed_inputs", "is_test", "ratio")]


def _tested(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 it drops elements unless `is_test` says otherwise."""
    if not node.attr_int("is_test", 0):
        raise unsupported(node, "is_test is 0: it drops elements at random", "is_test 1")
    return _copy(node, types)


@register
class Dropout(Operator):
    """Lowered to Identity; the mask may be named but not read."""

    name = "Dropout"
    versions = (12, 13, 22)
    older: ClassVar[dict[int, Rule]] = {1: _tested, 6: _tested, 7: _copy, 10: _copy}
    flags = ("training_mode",)
    static_inputs: ClassVar[dict[int, str]] = {1: "ratio", 2: "training_mode"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and the mask."""
        x = operands(node, inputs, 1)[0]
        ratio = node.attr_float("ratio", 0.5)
        if not 0 <= ratio < 1:
            raise unsupported(node, f"ratio is {ratio}", "a ratio from 0 to below 1")
        if node.attr_int("training_mode", 0) and ratio != 0.0:
            raise unsupported(node, "it drops elements at random", "training_mode false, or ratio 0")
        return (x, TensorType("int32", x.shape)) if len(node.outputs) > 1 else (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X, and a mask of ones."""
        x = arrays(inputs, 1)[0]
        return (x, np.ones(x.shape, np.int32))[: max(len(node.outputs), 1)]

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity."""
        return [Node(node.name, "Identity", node.inputs[:1], node.outputs[:1])]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY."""
        if b.needs_grad(0):
            b.emit("Identity", douts[:1], (b.grad(0),))

    def samples(self) -> Iterator[Sample]:
        """A matrix."""
        yield Sample("matrix", (normal(rng(86), 3, 4),))
