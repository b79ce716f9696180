"""MaxPool: the maximum of each window; padding never wins."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.declarations import Borders
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, rng
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.over_integers import over_integers
from deployer.operators.pooling.volume import pooled
from deployer.operators.pooling.windows import (
    FORMS,
    FORWARD,
    SPATIAL,
    Pool,
    padded,
    pool_kernel,
    sides,
    stacked,
    windows,
)


@over_integers
class MaxPool(Pool):
    """X[N, C, ...] of one to three spatial axes; the second output may be named but not read."""

    name = "MaxPool"
    versions = (1, 8, 10, 11, 12, 22)
    flags = ("ceil_mode", "storage_order")
    integers = True
    kernel = pool_kernel("max_pool_f32", ("x",), "y", *FORWARD)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y and the indices."""
        y = super().infer(node, inputs)[0]
        return (y, TensorType("int32", y.shape)) if len(node.outputs) > 1 else (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum of the numbers in each window; NaN is not a number here."""
        x = arrays(inputs, 1)[0]
        lowest = x.dtype.type(-np.inf) if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        axes = sides(node, x.shape)
        y = stacked(padded(np.where(np.isnan(x), lowest, x), axes, lowest), axes).max(0)
        return (y.reshape(self.infer(node, (TensorType("float32", x.shape),))[0].shape),)

    def borders(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Borders, ...]:
        """In each window the second largest element could have won, and the gradient gone to it."""
        x = arrays(inputs, 1)[0]
        axes = sides(node, x.shape)
        values = stacked(padded(np.where(np.isnan(x), -np.inf, x), axes, -np.inf), axes)
        places = stacked(padded(np.arange(x.size).reshape(x.shape), axes, -1), axes)
        if len(values) < 2:
            return ()
        order = np.argsort(-values, axis=0, kind="stable")[:2]
        (most, second), (winner, rival) = (np.take_along_axis(a, order, 0).reshape(2, -1) for a in (values, places))
        real = np.isfinite(second)
        turned = np.nextafter(most[real], np.inf)
        return (Borders(0, rival[real], (most - second)[real], turned, winner[real]),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same node without the output of indices, which no kernel computes; a volume by its planes and depth."""
        shape = operands(node, inputs, 1)[0].shape
        axes = windows(node, shape)
        if len(axes) == SPATIAL:
            return pooled(node, shape, axes)
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
