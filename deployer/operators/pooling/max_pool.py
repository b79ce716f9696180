"""MaxPool: the maximum of each window; padding never wins."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, register, rng
from deployer.operators.inputs import arrays, normal
from deployer.operators.pooling.windows import FORMS, FORWARD, Pool, padded, plane, pool_kernel, stacked


@register
class MaxPool(Pool):
    """X[N, C, ...] of one or two spatial axes; the second output may be named but not read."""

    name = "MaxPool"
    versions = (1, 8, 10, 11, 12, 22)
    flags = ("ceil_mode", "storage_order")
    kernel = pool_kernel("max_pool_f32", ("x",), "y", *FORWARD)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y and the indices."""
        y = super().infer(node, inputs)[0]
        return (y, TensorType("int32", y.shape)) if len(node.outputs) > 1 else (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum of the numbers in each window; NaN is not a number here."""
        x = arrays(inputs, 1)[0]
        x = np.where(np.isnan(x), x.dtype.type(-np.inf), x)
        h, w = plane(node, x.shape)
        y = stacked(padded(x, h, w, -np.inf), h, w).max(0)
        return (y.reshape(self.infer(node, (TensorType("float32", x.shape),))[0].shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same node without the output of indices, which no kernel computes."""
        if len(node.outputs) < 2:
            return None
        return [Node(node.name, self.name, node.inputs, node.outputs[:1], dict(node.attrs))]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY goes to the first maximum of its window."""
        if b.needs_grad(0):
            b.emit("MaxPoolGrad", (douts[0], node.inputs[0]), (b.grad(0),), **node.attrs)

    def samples(self) -> Iterator[Sample]:
        """All forms."""
        r = rng(81)
        for label, (shape, attrs) in FORMS.items():
            yield Sample(label, (normal(r, *shape),), attrs)
