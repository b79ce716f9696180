"""Size: the number of elements of a tensor; known at compile time, so it only ever folds."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.views.compile_time import Folded


@register
class Size(Folded):
    """A scalar integer."""

    name = "Size"
    versions = (1, 13, 19, 21, 23, 24, 25)
    type_only = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar integer."""
        operands(node, inputs, 1)
        return (TensorType("int32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The number of elements as int32; the values of the input do not matter."""
        x = arrays(inputs, 1)[0]
        return (np.array(x.size, np.int32),)

    def samples(self) -> Iterator[Sample]:
        """A tensor and a scalar."""
        r = rng(26)
        yield Sample("tensor", (normal(r, 2, 3, 4),))
        yield Sample("scalar", (normal(r),))
