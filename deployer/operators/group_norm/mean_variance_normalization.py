"""MeanVarianceNormalization: X by its mean and deviation over some axes.

ONNX's body of it subtracts the square of the mean from the mean of squares, which cancels where the mean is large; here
the squares are of distances from the mean, and from these their own mean is taken once more: what rounding it left.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.reduction.composed import number
from deployer.operators.view import normalized_axes

EPSILON = 1e-9
"""What ONNX's body adds to the deviation."""


@register
class MeanVarianceNormalization(Operator):
    """Means, differences, the root of their squares' mean, and a quotient."""

    name = "MeanVarianceNormalization"
    versions = (9, 13)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        _axes(node, x)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's mean, twice, and deviation."""
        x = arrays(inputs, 1)[0]
        axes = _axes(node, TensorType("float32", x.shape))
        near = x - x.mean(axes, dtype=x.dtype, keepdims=True)
        distance = near - near.mean(axes, dtype=x.dtype, keepdims=True)
        deviation = np.sqrt(np.square(distance).mean(axes, dtype=x.dtype, keepdims=True))
        return (np.asarray(distance / (deviation + x.dtype.type(EPSILON))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The formula, node by node."""
        names = ("mean", "near", "rest", "distance", "squares", "variance", "deviation", "epsilon", "above")
        mean, near, rest, distance, squares, variance, deviation, epsilon, above = (f"{node.name}/{n}" for n in names)
        along: dict[str, AttrValue] = {"axes": _axes(node, floats(node, inputs, 1)[0]), "keepdims": 1}
        return [
            Node(mean, "ReduceMean", node.inputs[:1], (mean,), along),
            Node(near, "Sub", (node.inputs[0], mean), (near,)),
            Node(rest, "ReduceMean", (near,), (rest,), along),
            Node(distance, "Sub", (near, rest), (distance,)),
            Node(squares, "Mul", (distance, distance), (squares,)),
            Node(variance, "ReduceMean", (squares,), (variance,), along),
            Node(deviation, "Sqrt", (variance,), (deviation,)),
            number(epsilon, EPSILON),
            Node(above, "Add", (deviation, epsilon), (above,)),
            Node(node.name, "Div", (distance, above), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """The default axes, one, and a mean far from zero."""
        r = rng(137)
        yield Sample("default", (normal(r, 2, 3, 4, 3),))
        yield Sample("one", (normal(r, 3, 7),), {"axes": (1,)}, onnx=False)
        yield Sample("far", (normal(r, 2, 3, 4, 3) + np.float32(100),), onnx=False)


def _axes(node: Node, x: TensorType) -> tuple[int, ...]:
    """Axes counted from the front; by default all but the channels."""
    axes = node.attr_ints("axes", (0, 2, 3))
    return normalized_axes(node, axes, len(x.shape), (x,))
