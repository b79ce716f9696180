"""LogSoftmaxGrad_13: dX = dY - exp(Y) sum(dY) along one axis; Y is the output of LogSoftmax."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.loss.classification import log_softmax
from deployer.operators.view import normalized_axes


@register
class LogSoftmaxGrad(Operator):
    """ONNX Runtime's, of dY and Y along `axis`, default the last."""

    name = "LogSoftmaxGrad_13"
    custom = Form((2, 2), (1, 1), {"axis": "INT"})
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of Y."""
        dy, y = floats(node, inputs, 2)
        normalized_axes(node, (node.attr_int("axis", -1),), len(y.shape), inputs)
        if dy != y:
            raise mismatch(node, "dY and Y differ in shape", inputs)
        return (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY - exp(Y) sum(dY)."""
        dy, y = arrays(inputs, 2)
        return (np.asarray(dy - np.exp(y) * dy.sum(node.attr_int("axis", -1), dtype=y.dtype, keepdims=True)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ReduceSum, Exp, Mul and Sub."""
        parts, (dy, y) = Construction(node.name), node.inputs
        total = parts.emit("ReduceSum", (dy,), axes=(node.attr_int("axis", -1),), keepdims=1)
        share = parts.emit("Mul", (parts.emit("Exp", (y,)), total))
        parts.emit("Sub", (dy, share), node.outputs[0])
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """Last, first and middle axis."""
        r = rng(138)
        for label, shape, axis in (("last", (7, 5), -1), ("first", (5, 7), 0), ("middle", (3, 4, 5), 1)):
            y = log_softmax(normal(r, *shape), axis)
            yield Sample(label, (normal(r, *shape), y), {"axis": axis}, onnx=False)
