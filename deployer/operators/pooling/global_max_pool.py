"""GlobalMaxPool: the maximum over all spatial axes of X[N, C, ...]."""

import math
from collections.abc import Iterator, Sequence

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.view import reshape_to


@register
class GlobalMaxPool(Operator):
    """Lowered to ReduceMax; its gradient is that of a MaxPool with one window."""

    name = "GlobalMaxPool"
    versions = (1, 22)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with spatial axes of one element."""
        x = floats(node, inputs, 1)[0]
        if len(x.shape) <= 2:
            raise mismatch(node, "X has no spatial axis", inputs)
        return (TensorType(x.dtype, x.shape[:2] + (1,) * (len(x.shape) - 2)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's maximum."""
        x = arrays(inputs, 1)[0]
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceMax over the spatial axes."""
        rank = len(floats(node, inputs, 1)[0].shape)
        attrs: dict[str, AttrValue] = {"axes": tuple(range(2, rank)), "keepdims": 1}
        return [Node(node.name, "ReduceMax", node.inputs[:1], node.outputs, attrs)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY goes to the first maximum, as in PyTorch; the spatial axes are one for that."""
        if b.needs_grad(0):
            shape = b.type(node.inputs[0]).shape
            size = math.prod(shape[2:])
            dy, line, dx = (b.temp(label) for label in ("dy", "line", "dx"))
            reshape_to(b, douts[0], (*shape[:2], 1), dy)
            reshape_to(b, node.inputs[0], (*shape[:2], size), line)
            b.emit("MaxPoolGrad", (dy, line), (dx,), kernel_shape=(size,))
            reshape_to(b, dx, shape, b.grad(0))

    def samples(self) -> Iterator[Sample]:
        """Images, a signal, a volume, and a single element."""
        r = rng(116)
        yield Sample("image", (normal(r, 2, 3, 4, 5),))
        yield Sample("signal", (normal(r, 2, 3, 7),))
        yield Sample("volume", (normal(r, 1, 3, 2, 4, 3),))
        yield Sample("element", (normal(r, 1, 5, 1, 1),))
