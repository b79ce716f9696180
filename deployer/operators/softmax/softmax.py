"""Softmax: exp(x - max) / sum(exp(x - max)) along one axis."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Sample, register, rng
from deployer.operators.inputs import arrays, normal
from deployer.operators.softmax.rows import POWERS, RowOperator, coerced, row_kernel


@register
class Softmax(RowOperator):
    """X along `axis`, default the last."""

    name = "Softmax"
    versions = (13,)
    older: ClassVar[dict[int, Rule]] = {1: coerced, 11: coerced}
    kernel = row_kernel("softmax_f32", ("x",), "y")
    phases = (*POWERS, ("Div", "powers", "sum", "y"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """exp(x - max) / sum(exp(x - max))."""
        x, axis = arrays(inputs, 1)[0], node.attr_int("axis", -1)
        return (softmax(x, axis),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """SoftmaxGrad of Y."""
        if b.needs_grad(0):
            axis = node.attr_int("axis", -1)
            b.emit("SoftmaxGrad", (douts[0], node.outputs[0]), (b.grad(0),), axis=axis)

    def samples(self) -> Iterator[Sample]:
        """Last, first, middle axis, a row of one element, values of +-1e4, and powers down to the least above zero."""
        r = rng(93)
        yield Sample("last", (normal(r, 7, 5),))
        yield Sample("last_of_three", (normal(r, 3, 4, 5),))
        yield Sample("first", (normal(r, 5, 7),), {"axis": 0})
        yield Sample("middle", (normal(r, 3, 4, 5),), {"axis": 1})
        yield Sample("long", (normal(r, 2, FACTS.longest_row + 7),))
        yield Sample("long_middle", (normal(r, 2, FACTS.longest_row + 1, 3),), {"axis": 1})
        yield Sample("blocks", (normal(r, 3, 150),))
        yield Sample("one", (normal(r, 3, 1),))
        faint = -np.outer(np.array([1, 0.97, 0.82, 0.65, 0.4, 3]), np.linspace(0, 104, 29))
        yield Sample("faint", (faint.astype(np.float32),))
        yield Sample("huge", (np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32),), {"axis": -1})


def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) over their sum."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True, dtype=x.dtype))
