"""Hardmax: one where a line's first largest element is, zero elsewhere."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.lines import axis_of
from deployer.operators.softmax.rows import coerced


@register
class Hardmax(Operator):
    """Made of ArgMax and OneHot."""

    name = "Hardmax"
    versions = (13,)
    older: ClassVar[dict[int, Rule]] = {1: coerced, 11: coerced}
    no_gradient = "it is constant wherever it has a derivative"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        axis_of(node, x.shape, -1, inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Ones at numpy's argmax."""
        x = arrays(inputs, 1)[0]
        axis, y = axis_of(node, x.shape, -1), np.zeros_like(x)
        np.put_along_axis(y, np.argmax(x, axis, keepdims=True), x.dtype.type(1), axis)
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Where the largest is, as ones."""
        shape = floats(node, inputs, 1)[0].shape
        axis = axis_of(node, shape, -1)
        place, values = f"{node.name}/place", f"{node.name}/values"
        return [
            Node(place, "ArgMax", node.inputs, (place,), {"axis": axis, "keepdims": 0}),
            Node(values, "Constant", (), (values,), {"value_floats": (0.0, 1.0)}),
            Node(node.name, "OneHot", (place, "", values), node.outputs, {"axis": axis, "depth": shape[axis]}),
        ]

    def samples(self) -> Iterator[Sample]:
        """Each axis, with equal elements."""
        x = np.round(normal(rng(143), 3, 7, 5))
        for axis in (0, 1, -1):
            yield Sample(f"axis{axis}", (x,), {"axis": axis})
