"""LogSoftmax: x - max - log(sum(exp(x - max))) along one axis."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Array, GradientBuilder, Sample, register, rng
from deployer.operators.inputs import arrays, normal
from deployer.operators.loss.classification import log_softmax
from deployer.operators.softmax.rows import POWERS, RowOperator, coerced, row_kernel


@register
class LogSoftmax(RowOperator):
    """X along `axis`, default the last."""

    name = "LogSoftmax"
    versions = (13,)
    older: ClassVar[dict[int, Rule]] = {1: coerced, 11: coerced}
    kernel = row_kernel("log_softmax_f32", ("x",), "y")
    phases = (*POWERS, ("Log", "sum", "log_sum"), ("Sub", "shifted", "log_sum", "y"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """x - max - log(sum(exp(x - max)))."""
        x = arrays(inputs, 1)[0]
        return (log_softmax(x, node.attr_int("axis", -1)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY - exp(Y) sum(dY), with the sum along the axis."""
        if b.needs_grad(0):
            axes = b.constant("axes", np.array([node.attr_int("axis", -1)], np.int64))
            total, shares, part = (b.temp(label) for label in ("total", "shares", "part"))
            b.emit("ReduceSum", (douts[0], axes), (total,), keepdims=1)
            b.emit("Exp", (node.outputs[0],), (shares,))
            b.emit("Mul", (shares, total), (part,))
            b.emit("Sub", (douts[0], part), (b.grad(0),))

    def samples(self) -> Iterator[Sample]:
        """Last, first, middle axis, and values of +-1e4."""
        r = rng(32)
        yield Sample("last", (normal(r, 7, 5),))
        yield Sample("last_of_three", (normal(r, 3, 4, 5),))
        yield Sample("first", (normal(r, 5, 7),), {"axis": 0})
        yield Sample("middle", (normal(r, 3, 4, 5),), {"axis": 1})
        yield Sample("long", (normal(r, 2, FACTS.longest_row + 7),))
        yield Sample("blocks", (normal(r, 3, 150),))
        yield Sample("huge", (np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32),), {"axis": -1})
