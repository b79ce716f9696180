"""AsFloat: an integer known at compile time as the float32 next to it; it only ever folds."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register
from deployer.operators.inputs import arrays, operands
from deployer.operators.views.compile_time import Folded


@register
class AsFloat(Folded):
    """An operator with both integer and float operands is lowered to a node that reads AsFloat of the integers."""

    name = "AsFloat"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Floats of the same shape."""
        return (TensorType("float32", operands(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The nearest float32."""
        return (arrays(inputs, 1)[0].astype(np.float32),)

    def samples(self) -> Iterator[Sample]:
        """A scalar and a vector, one beyond what floats hold exactly."""
        yield Sample("scalar", (np.array(6, np.int32),), onnx=False)
        yield Sample("vector", (np.array([-3, 0, (1 << 24) + 1], np.int32),), onnx=False)
