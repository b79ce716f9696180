"""GlobalAveragePool: the mean over all spatial axes of X[N, C, ...]."""

from collections.abc import Iterator, Sequence

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands


@register
class GlobalAveragePool(Operator):
    """Lowered to ReduceMean."""

    name = "GlobalAveragePool"
    versions = (1, 22)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with spatial axes of one element."""
        x = operands(node, inputs, 1)[0]
        if len(x.shape) < 3:
            raise mismatch(node, "X has no spatial axis", inputs)
        return (TensorType(x.dtype, x.shape[:2] + (1,) * (len(x.shape) - 2)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's mean."""
        x = arrays(inputs, 1)[0]
        return (x.mean(tuple(range(2, x.ndim)), dtype=x.dtype, keepdims=True),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceMean over the spatial axes."""
        rank = len(operands(node, inputs, 1)[0].shape)
        attrs: dict[str, AttrValue] = {"axes": tuple(range(2, rank)), "keepdims": 1}
        return [Node(node.name, "ReduceMean", node.inputs[:1], node.outputs, attrs)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY over the number of elements, repeated."""
        if b.needs_grad(0):
            spatial = b.type(node.inputs[0]).shape[2:]
            b.emit("GlobalAveragePoolGrad", (douts[0],), (b.grad(0),), kernel_shape=spatial)

    def samples(self) -> Iterator[Sample]:
        """Images, a signal, and a single element."""
        r = rng(61)
        yield Sample("image", (normal(r, 2, 3, 4, 5),))
        yield Sample("signal", (normal(r, 2, 3, 7),))
        yield Sample("element", (normal(r, 1, 5, 1, 1),))
