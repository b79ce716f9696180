"""ArgEqual: where along an axis X first, or last, equals a given element: a step of ArgMax and ArgMin."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    Kernel,
    Operator,
    Sample,
    Start,
    Work,
    register,
    rng,
)
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.lines import axis_of, line_strides, lines


def without_axis(shape: Sequence[int], axis: int, keep: bool) -> tuple[int, ...]:
    """The shape with one element along the axis, or without it."""
    return (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])


@register
class ArgEqual(Operator):
    """X and the element to find in each line, which has length one along the axis; NaN is found too. -1 where none is.

    `last` says that of several the last is meant.
    """

    name = "ArgEqual"
    kernel = Kernel(
        "arg_equal_f32",
        pointers=(("x", "float32", False), ("value", "float32", False), ("y", "int32", True)),
        scalars=tuple(
            (n, "u32") for n in ("o", "r", "i", "r_start", "x_o", "x_r", "value_o", "y_o", "first", "latest")
        ),
    )
    flags = ("keepdims", "last")
    no_gradient = "a position has none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with one element along the axis, or without it."""
        x = floats(node, inputs, 2)[0]
        keep = bool(node.attr_int("keepdims", 1))
        return (TensorType("int32", without_axis(x.shape, axis_of(node, x.shape, 0, inputs), keep)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The positions of what is equal, the least or the largest of them."""
        x, value = arrays(inputs, 2)
        axis = axis_of(node, x.shape, 0)
        found = (x == value.reshape(without_axis(x.shape, axis, keep=True))) | np.isnan(x)
        if node.attr_int("last", 0):
            y = x.shape[axis] - 1 - np.argmax(np.flip(found, axis), axis)
        else:
            y = np.argmax(found, axis)
        y = np.where(found.any(axis), y, -1).astype(np.int32)
        return (y.reshape(without_axis(x.shape, axis, bool(node.attr_int("keepdims", 1)))),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o and i, and the axis as the reduction r."""
        shape = types[node.inputs[0]].shape
        o, r, i = lines(shape, axis_of(node, shape, 0))
        ends = (At("o"), At("i"))
        listed = (
            Operand("x", node.inputs[0], "in", (o, r, i), (At("o"), At("r"), At("i"))),
            Operand("value", node.inputs[1], "in", (o, i), ends),
            Operand("y", node.outputs[0], "out", (o, i), ends),
        )
        return Access((Dim("o", o), Dim("i", i), Dim("r", r, "reduction")), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the first position of the tile, strides."""
        strides = line_strides(access, ("x", "value", "y"))
        lengths: dict[str, ArgValue] = {name: Extent(name) for name in "ori"}
        latest = Const(node.attr_int("last", 0))
        return {**lengths, "r_start": Start("r"), **strides, "first": First(), "latest": latest}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One comparison per element."""
        return Work(macs=0, elements=math.prod(tile.values()), parallel=tile["o"] * tile["i"])

    def samples(self) -> Iterator[Sample]:
        """Each axis, several equal elements, none, NaN; the first and the last."""
        r = rng(140)
        for label, shape, axis in (("rows", (5, 13), 1), ("columns", (11, 4), 0), ("middle", (3, 7, 5), 1)):
            x = np.round(normal(r, *shape))
            yield Sample(label, (x, x.max(axis, keepdims=True)), {"axis": axis}, onnx=False)
            attrs: dict[str, AttrValue] = {"axis": axis, "last": 1, "keepdims": 0}
            yield Sample(f"{label}_last", (x, x.max(axis, keepdims=True)), attrs, onnx=False)
        odd = np.array([[1, np.nan, 2, np.nan], [1, 2, 3, 4]], np.float32)
        yield Sample("odd", (odd, np.array([[np.nan], [5]], np.float32)), {"axis": 1}, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Rows and columns."""
        r = rng(141)
        for shape, axis in (((16, 16), 1), ((8, 128), 1), ((64, 32), 0), ((128, 8), 0)):
            x = normal(r, *shape)
            yield Sample(f"{shape} {axis}", (x, x.max(axis, keepdims=True)), {"axis": axis}, onnx=False)
