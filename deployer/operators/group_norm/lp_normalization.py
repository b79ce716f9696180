"""LpNormalization: X over its norm along an axis, and zeros where that is zero."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.reduction.composed import number
from deployer.operators.view import normalized_axes

NORMS = {1: "ReduceL1", 2: "ReduceL2"}
"""The reduction for each `p`."""
LEAST = float(np.finfo(np.float32).tiny)
"""The smallest normal float: a norm below is taken for it, so that zeros stay zeros."""


@register
class LpNormalization(Operator):
    """A reduction, a bound below, and Div."""

    name = "LpNormalization"
    versions = (1, 22)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        normalized_axes(node, (node.attr_int("axis", -1),), len(x.shape), inputs)
        if node.attr_int("p", 2) not in NORMS:
            raise unsupported(node, f"p is {node.attrs['p']}", "p 1 or 2")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X over the sum of magnitudes, or over the root of the sum of squares."""
        x = arrays(inputs, 1)[0]
        axis = node.attr_int("axis", -1)
        powers = np.abs(x) if node.attr_int("p", 2) == 1 else np.square(x)
        total = powers.sum(axis, dtype=x.dtype, keepdims=True)
        norm = total if node.attr_int("p", 2) == 1 else np.sqrt(total)
        return (np.asarray(x / np.maximum(norm, x.dtype.type(LEAST))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The norm, at least the smallest float, and the quotient."""
        norm, least, bound = (f"{node.name}/{label}" for label in ("norm", "least", "bound"))
        along: dict[str, AttrValue] = {"axes": (node.attr_int("axis", -1),), "keepdims": 1}
        return [
            Node(norm, NORMS[node.attr_int("p", 2)], node.inputs[:1], (norm,), along),
            number(least, LEAST),
            Node(bound, "Max", (norm, least), (bound,)),
            Node(node.name, "Div", (node.inputs[0], bound), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Both norms, along the last axis and others, and a row of zeros."""
        r = rng(136)
        yield Sample("default", (normal(r, 3, 4),))
        yield Sample("magnitudes", (normal(r, 2, 5, 3),), {"axis": 1, "p": 1})
        yield Sample("first", (normal(r, 4, 3),), {"axis": 0, "p": 2})
