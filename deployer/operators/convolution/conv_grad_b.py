"""ConvGradB: the gradient of a convolution with respect to its bias."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.convolution.geometry import BACKWARD, CONV_ATTRS, RANKS
from deployer.operators.inputs import arrays, floats, normal, operands


@register
class ConvGradB(Operator):
    """dY -> dB: the sum over batch and space, by ReduceSum."""

    name = "ConvGradB"
    custom = Form((1, 1), (1, 1), CONV_ATTRS)
    no_gradient = BACKWARD

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """dY[N, M, ..] to dB[M]."""
        (dy,) = floats(node, inputs, 1)
        if len(dy.shape) not in RANKS:
            raise unsupported(node, f"dY has {len(dy.shape)} axes", "dY of 3 to 5 axes")
        return (TensorType("float32", dy.shape[1:2]),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum over all axes but the second, in float64."""
        (dy,) = arrays(inputs, 1)
        return (dy.sum((0, *range(2, dy.ndim)), dtype=np.float64).astype(dy.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceSum over batch and space."""
        (dy,) = operands(node, inputs, 1)
        attrs: dict[str, AttrValue] = {"axes": (0, *range(2, len(dy.shape))), "keepdims": 0}
        return [Node(node.name, "ReduceSum", node.inputs[:1], node.outputs, attrs)]

    def samples(self) -> Iterator[Sample]:
        """Planes, a batch, and lines."""
        r = rng(47)
        yield Sample("plane", (normal(r, 1, 3, 4, 5),), onnx=False)
        yield Sample("batch", (normal(r, 2, 3, 4, 5),), onnx=False)
        yield Sample("line", (normal(r, 2, 3, 7),), onnx=False)
