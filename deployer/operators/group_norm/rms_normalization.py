"""RMSNormalization: Y = X scale / sqrt(mean(X X) + epsilon), with the mean over the axes from `axis` on."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import GAIN, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.group_norm.groups import EPSILON
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.layer_norm.rows_by_columns import first_axis
from deployer.operators.reduction.composed import number


@register
class RMSNormalization(Operator):
    """Made of Mul, ReduceMean, Add, Sqrt and Div; files of older versions of ONNX may have it, too."""

    name = "RMSNormalization"
    learned: ClassVar[dict[int, str]] = {1: GAIN}
    versions = (23,)
    custom = Form((2, 2), (1, 1), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"})
    domain = ""
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; scale broadcasts to it."""
        x, scale = floats(node, inputs, 2)
        first_axis(node, x.shape)
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        ending = x.shape[len(x.shape) - len(scale.shape) :] if len(scale.shape) <= len(x.shape) else ()
        if any(a not in (1, b) for a, b in zip(scale.shape, ending, strict=False)) or len(ending) < len(scale.shape):
            raise mismatch(node, "scale does not broadcast to X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X over the root of the mean of its squares, times scale."""
        x, scale = arrays(inputs, 2)
        axes = tuple(range(first_axis(node, x.shape), x.ndim))
        mean = np.square(x).mean(axes, dtype=x.dtype, keepdims=True)
        return (np.asarray(x / np.sqrt(mean + x.dtype.type(node.attr_float("epsilon", EPSILON))) * scale, x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """X over the root of the mean of its squares, times scale."""
        shape = floats(node, inputs, 2)[0].shape
        axes = tuple(range(first_axis(node, shape), len(shape)))
        squares, mean, epsilon, above, root, unit = (
            f"{node.name}/{label}" for label in ("squares", "mean", "epsilon", "above", "root", "unit")
        )
        x, scale = node.inputs
        return [
            Node(squares, "Mul", (x, x), (squares,)),
            Node(mean, "ReduceMean", (squares,), (mean,), {"axes": axes, "keepdims": 1}),
            number(epsilon, node.attr_float("epsilon", EPSILON)),
            Node(above, "Add", (mean, epsilon), (above,)),
            Node(root, "Sqrt", (above,), (root,)),
            Node(unit, "Div", (x, root), (unit,)),
            Node(node.name, "Mul", (unit, scale), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Rows, axes in the middle, another epsilon."""
        r = rng(122)
        for label, shape, axis in (("rows", (7, 5), -1), ("sequence", (2, 6, 9), -1), ("middle", (2, 3, 4, 5), 2)):
            yield Sample(label, (normal(r, *shape), normal(r, *shape[axis:])), {"axis": axis}, onnx=False)
        yield Sample("epsilon", (normal(r, 3, 4), normal(r, 4)), {"epsilon": 0.1}, onnx=False)
