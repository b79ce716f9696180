"""MeanVarianceNormalization: X less its mean over some axes, over its deviation."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.reduction.composed import number
from deployer.operators.view import normalized_axes

LEAST = 1e-9
"""What ONNX adds to the deviation."""


@register
class MeanVarianceNormalization(Operator):
    """Made of ReduceMean, Sub, Mul, Sqrt, Add and Div; the mean goes before the squares."""

    name = "MeanVarianceNormalization"
    versions = (9, 13)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        _axes(node, x.shape, inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's mean and deviation."""
        x = arrays(inputs, 1)[0]
        axes = _axes(node, x.shape)
        rest = x - x.mean(axes, dtype=x.dtype, keepdims=True)
        deviation = np.sqrt(np.square(rest).mean(axes, dtype=x.dtype, keepdims=True))
        return (np.asarray(rest / (deviation + x.dtype.type(LEAST)), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The mean, what is left of X, its squares, their mean, the root, the quotient."""
        attrs: dict[str, AttrValue] = {"axes": _axes(node, floats(node, inputs, 1)[0].shape), "keepdims": 1}
        mean, rest, squares, variance, deviation, least, divisor = (
            f"{node.name}/{label}" for label in ("mean", "rest", "squares", "variance", "deviation", "least", "divisor")
        )
        return [
            Node(mean, "ReduceMean", node.inputs, (mean,), attrs),
            Node(rest, "Sub", (node.inputs[0], mean), (rest,)),
            Node(squares, "Mul", (rest, rest), (squares,)),
            Node(variance, "ReduceMean", (squares,), (variance,), attrs),
            Node(deviation, "Sqrt", (variance,), (deviation,)),
            number(least, LEAST),
            Node(divisor, "Add", (deviation, least), (divisor,)),
            Node(node.name, "Div", (rest, divisor), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Channels of images, and other axes."""
        r = rng(172)
        yield Sample("channels", (normal(r, 3, 4, 5, 6),))
        yield Sample("rows", (normal(r, 6, 9),), {"axes": (1,)}, onnx=False)


def _axes(node: Node, shape: Sequence[int], inputs: Sequence[TensorType | None] = ()) -> tuple[int, ...]:
    """The axes over which the mean goes, by default all but that of channels."""
    return normalized_axes(node, node.attr_ints("axes", (0, 2, 3)), len(shape), inputs)
