"""LpNormalization: X over its norm along an axis."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.lines import axis_of
from deployer.operators.reduction.composed import number

NORMS = {1: "ReduceL1", 2: "ReduceL2"}


@register
class LpNormalization(Operator):
    """Made of ReduceL1 or ReduceL2 and Div; a line of zeros stays one."""

    name = "LpNormalization"
    versions = (1, 22)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        axis_of(node, x.shape, -1, inputs)
        if node.attr_int("p", 2) not in NORMS:
            raise unsupported(node, f"p is {node.attrs['p']}", "a p of 1 or 2")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X over the root of the sum of squares, or over the sum of magnitudes."""
        x = arrays(inputs, 1)[0]
        axis, p = axis_of(node, x.shape, -1), node.attr_int("p", 2)
        norm = (np.abs(x) ** p).sum(axis, dtype=x.dtype, keepdims=True) ** (1 / p)
        return (np.asarray(x / np.where(norm == 0, 1, norm), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The norm, one in place of zero, the quotient."""
        axis = axis_of(node, floats(node, inputs, 1)[0].shape, -1)
        norm, zero, one, none, divisor = (f"{node.name}/{x}" for x in ("norm", "zero", "one", "none", "divisor"))
        reduced: dict[str, AttrValue] = {"axes": (axis,), "keepdims": 1}
        return [
            Node(norm, NORMS[node.attr_int("p", 2)], node.inputs, (norm,), reduced),
            number(zero, 0.0),
            number(one, 1.0),
            Node(none, "Equal", (norm, zero), (none,)),
            Node(divisor, "Where", (none, one, norm), (divisor,)),
            Node(node.name, "Div", (node.inputs[0], divisor), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Each axis and norm, and a line of zeros."""
        r = rng(171)
        for p in NORMS:
            for axis in (0, 1, -1):
                yield Sample(f"p{p}_{axis}", (normal(r, 3, 5, 7),), {"p": p, "axis": axis})
        zeros = normal(r, 3, 4) * np.array([[1], [0], [1]], np.float32)
        yield Sample("zeros", (zeros,), onnx=False)
