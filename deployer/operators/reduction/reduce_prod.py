"""ReduceProd: the product over some axes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Sums
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, register
from deployer.operators.inputs import arrays
from deployer.operators.reduction.reduction import Reduction, reduce_kernel
from deployer.operators.view import reshape_to


@register
class ReduceProd(Reduction):
    """Products in row-major order."""

    name = "ReduceProd"
    overflow = "any"
    versions = (1, 11, 13, 18)
    kernel: ClassVar[Kernel] = reduce_kernel("reduce_prod_f32", sums=False)
    sums: ClassVar[Sums | None] = None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's product."""
        x = arrays(inputs, 1)[0]
        axes = self.axes(node, TensorType("float32", x.shape))
        return (np.asarray(x.prod(axes, dtype=x.dtype, keepdims=bool(node.attr_int("keepdims", 1)))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY times the product of all others, with X as rows of what is multiplied."""
        if not b.needs_grad(0):
            return
        x = b.type(node.inputs[0])
        axes = self.axes(node, x)
        kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
        order = (*kept, *axes)
        sizes = tuple(x.shape[axis] for axis in order)
        table = (b.type(douts[0]).size, x.size // b.type(douts[0]).size)
        rows, products, moved = b.temp("rows"), b.temp("products"), node.inputs[0]
        if order != tuple(range(len(order))):
            moved = b.temp("moved")
            b.emit("Transpose", node.inputs[:1], (moved,), perm=order)
        reshape_to(b, moved, table, rows)
        dy = b.temp("dy")
        reshape_to(b, douts[0], table[:1], dy)
        b.emit("ReduceProdGrad", (dy, rows), (products,))
        if moved == node.inputs[0]:
            reshape_to(b, products, x.shape, b.grad(0))
            return
        back = b.temp("back")
        reshape_to(b, products, sizes, back)
        b.emit("Transpose", (back,), (b.grad(0),), perm=tuple(order.index(axis) for axis in range(len(order))))

    def samples(self) -> Iterator[Sample]:
        """Numbers around one, and zeros: one in a row, several in another."""
        for sample in super().samples():
            [x] = arrays(sample.inputs, 1)
            yield replace(sample, inputs=(np.float32(1) + x / np.float32(4),))
        zeros = np.array([[2, 0, 3, 0.5], [0, -1, 0, 4], [0.5, 2, -3, 1]], np.float32)
        yield Sample("zeros", (zeros,), {"axes": (1,)})
