"""DivGrad: the gradients of A and B of a quotient A / B, summed over the axes along which each was broadcast."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.sums import sum_array, sum_nodes


@register
class DivGrad(Operator):
    """ONNX Runtime's, of dY, A and B: dA = dY / B, dB = -(dY / B) (A / B); an output may be absent."""

    name = "DivGrad"
    custom = Form((3, 3), (1, 2))
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of A and B, which broadcast to dY."""
        dy, a, b = floats(node, inputs, 3)
        try:
            fits = np.broadcast_shapes(a.shape, b.shape) == dy.shape
        except ValueError:
            fits = False
        if not fits:
            raise mismatch(node, "A and B do not broadcast to dY", inputs)
        return (a, b)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dY / B, and -dY A / B^2."""
        dy, a, b = arrays(inputs, 3)
        share = dy / b
        return sum_array(np.asarray(share), a.shape), sum_array(np.asarray(-share * (a / b)), b.shape)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Two quotients, their product, and sums."""
        (wide, *shapes), (dy, a, b) = (kind.shape for kind in floats(node, inputs, 3)), node.inputs
        da, db = (*node.outputs, "")[:2]
        parts = Construction(node.name)
        share = parts.emit("Div", (dy, b))
        if da:
            sum_nodes(parts, share, wide, shapes[0], da)
        if db:
            product = parts.emit("Mul", (share, parts.emit("Div", (a, b))))
            sum_nodes(parts, parts.emit("Neg", (product,)), wide, shapes[1], db)
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """Equal shapes, each side broadcast, and one output."""
        r = rng(137)
        shapes = {"equal": ((5, 7), (5, 7)), "divisor": ((2, 3, 4), (3, 1)), "dividend": ((4,), (2, 3, 4))}
        shapes["both"] = ((3, 1), (1, 4))
        for label, (of_a, of_b) in shapes.items():
            b = normal(r, *of_b)
            b = np.asarray(b + 2 * np.sign(b), np.float32)
            dy = normal(r, *np.broadcast_shapes(of_a, of_b))
            yield Sample(label, (dy, normal(r, *of_a), b), {}, 2, onnx=False)
        yield Sample("one", (normal(r, 3), normal(r, 3), np.full(3, 2, np.float32)), onnx=False)
