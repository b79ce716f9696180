"""Expand: X repeated to a given shape by numpy broadcasting."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    GradientBuilder,
    Kernel,
    Operator,
    Sample,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.broadcast import broadcast_access, loop_args, loop_scalars
from deployer.operators.inputs import arrays, normal, operands, words


@register
class Expand(Operator):
    """The output has the broadcast of X's shape and `shape`, which may hold ones."""

    name = "Expand"
    versions = (8, 13)
    kernel = Kernel(
        "expand_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=loop_scalars(("x", "y")),
    )
    moved = ("x", "y")
    static_inputs: ClassVar[dict[int, str]] = {1: "shape"}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape."""
        x = operands(node, inputs, 1)[0]
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = node.attr_ints("shape", ())
        try:
            return (TensorType(x.dtype, np.broadcast_shapes(x.shape, shape)),)
        except ValueError:
            raise mismatch(node, f"the input does not broadcast with shape {shape}", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's broadcast_to."""
        x = arrays(inputs, 1)[0]
        shape = np.broadcast_shapes(x.shape, node.attr_ints("shape", ()))
        return (np.broadcast_to(x, shape).copy(),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY summed over the axes X was repeated along."""
        if b.needs_grad(0):
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A view where nothing is repeated."""
        y = self.infer(node, inputs)[0]
        if y.size != operands(node, inputs, 1)[0].size:
            return None
        return [Node(node.name, "Reshape", node.inputs[:1], node.outputs, {"shape": y.shape})]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Up to four parallel dims, merged from the broadcast axes."""
        return broadcast_access(node, types, ("x", "y"), [types[node.inputs[0]].dtype] * 2)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        return loop_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One copy per output element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """From a scalar, along each axis and two, with ones in the shape, a new axis, no repetition."""
        r = rng(41)
        yield Sample("scalar", (normal(r),), {"shape": (3, 4)})
        yield Sample("rows", (normal(r, 1, 7),), {"shape": (5, 7)})
        yield Sample("columns", (normal(r, 5, 1),), {"shape": (5, 7)})
        yield Sample("both", (normal(r, 3, 1, 5, 1),), {"shape": (1, 4, 1, 6)})
        yield Sample("integers", (words(r, 3, 1, 5),), {"shape": (3, 4, 5)})
        yield Sample("new_axis", (normal(r, 3),), {"shape": (2, 1)})
        yield Sample("view", (normal(r, 3, 4),), {"shape": (1, 1, 1)})
