"""Trilu: the upper or the lower triangle of matrices, zeros elsewhere."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, one_number, operands


@register
class Trilu(Operator):
    """X where a constant triangle is, by Where; `k` diagonals above the main one are its border."""

    name = "Trilu"
    versions = (14,)
    custom = Form((1, 2), (1, 1), {"upper": "INT"})
    flags = ("upper",)
    static_inputs: ClassVar[dict[int, str]] = {1: "k"}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; an error where it is no matrix, or k is not one number."""
        x = operands(node, inputs, 1)[0]
        if len(x.shape) < 2:
            raise mismatch(node, f"{x} is no matrix", inputs)
        one_number(node, "k")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's triangles."""
        x = arrays(inputs, 1)[0]
        return (np.where(_triangle(node, x.shape), x, x.dtype.type(0)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Where of a mask that broadcasts over the matrices; for integers, which are constant, a product by it."""
        x = operands(node, inputs, 1)[0]
        flat, mask, zero = (f"{node.name}/{label}" for label in ("flat", "mask", "zero"))
        values = tuple(int(v) for v in _triangle(node, x.shape).reshape(-1))
        nodes = [
            Node(flat, "Constant", (), (flat,), {"value_ints": values}),
            Node(mask, "Reshape", (flat,), (mask,), {"shape": x.shape[-2:]}),
        ]
        if x.dtype != "float32":
            return [*nodes, Node(node.name, "Mul", (node.inputs[0], mask), node.outputs)]
        return [
            *nodes,
            Node(zero, "Constant", (), (zero,), {"value_float": 0.0}),
            Node(node.name, "Where", (mask, node.inputs[0], zero), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Both triangles, borders above and below the diagonal, batches."""
        r = rng(131)
        yield Sample("upper", (normal(r, 4, 5),))
        yield Sample("lower", (normal(r, 5, 4),), {"upper": 0})
        yield Sample("above", (normal(r, 2, 4, 4),), {"k": 1})
        yield Sample("below", (normal(r, 2, 3, 3),), {"upper": 0, "k": -1})


def _triangle(node: Node, shape: tuple[int, ...]) -> Array:
    k = one_number(node, "k")
    ones = np.ones(shape[-2:], bool)
    return np.triu(ones, k) if node.attr_int("upper", 1) else np.tril(ones, k)
