"""Gradients of broadcast operands: sums over the axes along which a value was broadcast, and DivGrad."""

from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.elementwise import Shape, aligned
from deployer.operators.base.operands import Construction, arrays, floats
from deployer.operators.base.views import reshape_to
from deployer.operators.elementwise.arithmetic import Add
from deployer.operators.movement.shapes import Identity
from deployer.operators.reduction.reduction import ReduceSum

SUM = Add.name
"""The operator of two parts of a gradient and their sum."""
SUMS, FACTORS, QUOTIENTS = ("Add", "Sum", "Sub"), ("Mul",), ("Div",)
"""Operators by which a layer's bias and gain stand apart from it, and by which a norm written out divides."""
ROOT, POWER, INVERSES, MEANS = "Sqrt", "Pow", ("Reciprocal", "Div"), "Reduce"
"""Operators of the divisor of a norm that is written out; those of means begin so."""
PASSING = ("Cast", "Dropout")
"""Operators that leave values as they are, or drop some."""
PRODUCT, UNIT_NORM = "MatMul", "InstanceNormalization"
"""The operator of two matrices, and that of a norm which exporters also write inside of others."""


def sum_to(b: GradientBuilder, name: str, shape: Sequence[int], out: str) -> None:
    """Emit `out` as the sum of `name` over the axes along which `shape` was broadcast."""
    full = b.type(name).shape
    lead = len(full) - len(shape)
    axes = [i for i, size in enumerate(full) if i < lead or (size != 1 and shape[i - lead] == 1)]
    if not axes:
        b.emit(Identity.name, (name,), (out,))
        return
    inner = axes[-1] >= lead
    reshaped = lead > 0 and inner
    total = b.temp("reduced") if reshaped else out
    source = b.constant("axes", np.array(axes, np.int64))
    b.emit(ReduceSum.name, (name, source), (total,), keepdims=int(inner))
    if reshaped:
        reshape_to(b, total, tuple(shape), out)


def summed_axes(wide: Shape, shape: Shape) -> tuple[int, ...]:
    """The axes of the wide shape along which the other was broadcast."""
    own = aligned(shape, len(wide))
    added = len(wide) - len(shape)
    return tuple(axis for axis, (n, m) in enumerate(zip(wide, own, strict=True)) if axis < added or n != m)


def sum_nodes(graph: Construction, name: str, wide: Shape, shape: Shape, output: str) -> None:
    """Append nodes for `output`, of that shape, from a value of the wide one."""
    axes = summed_axes(wide, shape)
    total = graph.emit("ReduceSum", (name,), axes=axes, keepdims=0) if axes else name
    graph.emit("Reshape", (total,), output, shape=shape)


def sum_array(x: Array, shape: Shape) -> Array:
    """An array of that shape from one of a wide shape."""
    return np.asarray(x.sum(summed_axes(x.shape, shape), dtype=x.dtype)).reshape(shape)


@register
class DivGrad(Operator):
    """The gradients of A and B of a quotient A / B, summed over the axes along which each was broadcast.

    ONNX Runtime's, of dY, A and B: dA = dY / B, dB = -(dY / B) (A / B); an output may be absent.
    """

    name = "DivGrad"
    file = FileSpec(custom=Signature((3, 3), (1, 2)))
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
        graph = Construction(node.name)
        share = graph.emit("Div", (dy, b))
        if da:
            sum_nodes(graph, share, wide, shapes[0], da)
        if db:
            product = graph.emit("Mul", (share, graph.emit("Div", (a, b))))
            sum_nodes(graph, graph.emit("Neg", (product,)), wide, shapes[1], db)
        return graph.nodes
