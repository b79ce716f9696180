"""Shape: the lengths of a tensor's axes; known at compile time, so it only ever folds."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.views.compile_time import Folded


@register
class Shape(Folded):
    """Lengths of the axes from `start` up to `end`, which may be negative."""

    name = "Shape"
    versions = (1, 13, 15, 19, 21, 23, 24, 25)
    type_only = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A vector of integers."""
        x = operands(node, inputs, 1)[0]
        return (TensorType("int32", (len(_part(node, x.shape)),)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The lengths as int32; the values of the input do not matter."""
        x = arrays(inputs, 1)[0]
        return (np.array(_part(node, x.shape), np.int32),)

    def samples(self) -> Iterator[Sample]:
        """Whole, from `start`, a negative range, a scalar's."""
        r = rng(25)
        yield Sample("whole", (normal(r, 2, 3, 4),))
        yield Sample("start", (normal(r, 2, 3, 4),), {"start": 1})
        yield Sample("range", (normal(r, 2, 3, 4),), {"start": -3, "end": -1})
        yield Sample("scalar", (normal(r),))


def _part(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    # Python's slices clamp and count from the end as the ONNX text asks.
    return shape[node.attr_int("start", 0) : node.attr_int("end", len(shape))]
