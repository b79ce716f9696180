"""Operators that rank elements: ArgMax, ArgMin, TopK and Hardmax."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, First, Kernel, Start, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Training
from deployer.operators.base.axes import axis_of, line_strides, lines
from deployer.operators.base.integer_variants import over_integers
from deployer.operators.base.operands import arrays, floats, one_number, operands
from deployer.operators.normalization.softmax import coerced


def without_axis(shape: Sequence[int], axis: int, keep: bool) -> tuple[int, ...]:
    """The shape with one element along the axis, or without it."""
    return (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])


@register
class ArgEqual(Operator):
    """The first or last index along an axis at which X equals a given element: a step of ArgMax and ArgMin.

    X and the element to find in each line, which has length one along the axis; NaN is found too. -1 where none is.

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
    file = FileSpec(flags=("keepdims", "last"))
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One comparison per element."""
        return Work(macs=0, elements=math.prod(tile.values()), parallel=tile["o"] * tile["i"])


class ArgExtreme(Operator):
    """Made of a reduction, `extreme`, and ArgEqual."""

    file = FileSpec(versions=(1, 11, 12, 13), flags=("keepdims", "select_last_index"))
    no_gradient = "a position has none"
    extreme: ClassVar[str]

    @abstractmethod
    def position(self, x: Array, axis: int) -> Array:
        """The first position of the extremum."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with one integer along the axis, or without it."""
        x = floats(node, inputs, 1)[0]
        keep = bool(node.attr_int("keepdims", 1))
        return (TensorType("int32", without_axis(x.shape, axis_of(node, x.shape, 0, inputs), keep)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's position; of several the last is found from the end."""
        x = arrays(inputs, 1)[0]
        axis = axis_of(node, x.shape, 0)
        if node.attr_int("select_last_index", 0):
            y = x.shape[axis] - 1 - self.position(np.flip(x, axis), axis)
        else:
            y = self.position(x, axis)
        keep = bool(node.attr_int("keepdims", 1))
        return (np.asarray(y, np.int32).reshape(without_axis(x.shape, axis, keep)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The extremum, and where X is equal to it."""
        axis = axis_of(node, floats(node, inputs, 1)[0].shape, 0)
        value = f"{node.name}/value"
        keep, last = node.attr_int("keepdims", 1), node.attr_int("select_last_index", 0)
        return [
            Node(value, self.extreme, node.inputs, (value,), {"axes": (axis,), "keepdims": 1}),
            Node(
                node.name,
                "ArgEqual",
                (*node.inputs, value),
                node.outputs,
                {"axis": axis, "keepdims": keep, "last": last},
            ),
        ]


@register
class ArgMax(ArgExtreme):
    """The index of the largest element along an axis.

    The first of several, or the last; the first NaN where there is one.
    """

    name = "ArgMax"
    extreme = "ReduceMax"

    def position(self, x: Array, axis: int) -> Array:
        """numpy's."""
        return np.asarray(np.argmax(x, axis))


@register
class ArgMin(ArgExtreme):
    """The index of the smallest element along an axis.

    The first of several, or the last; the first NaN where there is one.
    """

    name = "ArgMin"
    extreme = "ReduceMin"

    def position(self, x: Array, axis: int) -> Array:
        """numpy's."""
        return np.asarray(np.argmin(x, axis))


@register
class Hardmax(Operator):
    """One where a line's first largest element is, zero elsewhere. Made of ArgMax and OneHot."""

    name = "Hardmax"
    file = FileSpec(versions=(13,), older={1: coerced, 11: coerced})
    no_gradient = "it is constant wherever it has a derivative"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        axis_of(node, x.shape, -1, inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Ones at numpy's argmax."""
        x = arrays(inputs, 1)[0]
        axis, y = axis_of(node, x.shape, -1), np.zeros_like(x)
        np.put_along_axis(y, np.argmax(x, axis, keepdims=True), x.dtype.type(1), axis)
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Lower to ArgMax and OneHot."""
        shape = floats(node, inputs, 1)[0].shape
        axis = axis_of(node, shape, -1)
        place, values = f"{node.name}/place", f"{node.name}/values"
        return [
            Node(place, "ArgMax", node.inputs, (place,), {"axis": axis, "keepdims": 0}),
            Node(values, "Constant", (), (values,), {"value_floats": (0.0, 1.0)}),
            Node(node.name, "OneHot", (place, "", values), node.outputs, {"axis": axis, "depth": shape[axis]}),
        ]


def _training_form(node: Node, fresh: Callable[[str], str]) -> Node:
    """With both outputs."""
    return node if len(node.outputs) > 1 and node.outputs[1] else replace(node, outputs=(node.outputs[0], fresh("ids")))


@over_integers
class TopK(Operator):
    """The K largest or smallest elements of each line along an axis, in order, and where they are.

    Values and positions, of equal ones the first; they are sorted whether `sorted` says so or not.

    A tile holds full lines.
    """

    name = "TopK"
    kernel = Kernel(
        "top_k_f32",
        pointers=(("x", "float32", False), ("y", "float32", True), ("ids", "int32", True)),
        scalars=tuple(
            (n, "u32") for n in ("o", "n", "i", "k", "largest", "x_o", "x_n", "y_o", "y_n", "ids_o", "ids_n")
        ),
    )
    file = FileSpec(versions=(1, 10, 11, 24), static_inputs={1: "k"}, flags=("largest", "sorted"))
    execution = Execution(optional_outputs={"ids": 1})
    training = Training(training_form=_training_form)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with K along the axis, of floats and of integers."""
        x = operands(node, inputs, 1)[0]
        axis, count = axis_of(node, x.shape, -1, inputs), _count(node)
        if not 1 <= count <= x.shape[axis]:
            raise mismatch(node, f"K is {count}, of {x.shape[axis]} elements along axis {axis}", inputs)
        if not node.outputs[0]:
            raise unsupported(node, "its values have no name", "a name for both outputs")
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType("int32", shape)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's stable sort; NaN comes behind all numbers. ~X has the order of -X, and no integer that overflows."""
        x = arrays(inputs, 1)[0]
        axis = axis_of(node, x.shape, -1)
        reversed_keys = -x if x.dtype.kind == "f" else ~x
        order = np.argsort(reversed_keys if node.attr_int("largest", 1) else x, axis, kind="stable")
        ids = np.take(order, np.arange(_count(node)), axis)
        return np.take_along_axis(x, ids, axis), ids.astype(np.int32)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY where the values come from, and zero elsewhere."""
        if b.needs_grad(0) and douts[0]:
            shape = b.type(node.inputs[0]).shape
            size = b.constant("shape", np.array(shape, np.int64))
            axis = axis_of(node, shape, -1)
            b.emit("GatherElementsGrad", (douts[0], size, node.outputs[1]), (b.grad(0),), axis=axis)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o and i; the axis is whole in every tile."""
        shape = types[node.inputs[0]].shape
        o, n, i = lines(shape, axis_of(node, shape, -1))
        axes = (At("o"), Whole(), At("i"))
        listed = [Operand("x", node.inputs[0], "in", (o, n, i), axes)]
        for arg, name in zip(("y", "ids"), node.outputs, strict=False):
            listed.append(Operand(arg, name, "out", (o, _count(node), i), axes))
        return Access((Dim("o", o), Dim("i", i)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides: dict[str, ArgValue] = {"ids_o": Const(0), "ids_n": Const(0)}
        strides |= line_strides(access, ("x", "y", "ids"))
        n = access.operands[0].view[1]
        return {
            **{"o": Extent("o"), "n": Const(n), "i": Extent("i"), "k": Const(_count(node))},
            **{"largest": Const(node.attr_int("largest", 1)), **strides},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A comparison per element, and on the way of each into the list as many as half of the list is long."""
        rows, count = tile["o"] * tile["i"], _count(node)
        return Work(macs=0, elements=rows * (access.operands[0].view[1] + count * count // 2), parallel=rows)


def _count(node: Node) -> int:
    """K; UnsupportedOperator where it is not known."""
    if "k" not in node.attrs:
        raise unsupported(node, "K is not constant", "a constant K")
    return one_number(node, "k")
