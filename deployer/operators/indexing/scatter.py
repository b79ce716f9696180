"""Writing rows or elements at an index."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.operators.base.axes import axis_of, lines
from deployer.operators.base.operands import arrays, operands
from deployer.operators.indexing.gather import check_ids, from_the_front, row_indices
from deployer.operators.indexing.gather_elements import (
    REDUCTIONS,
    Scattering,
    check_elements_ids,
    check_floats,
    grid,
    put,
)
from deployer.operators.reduction.reduction import expand_to


def _scatter_elements_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of rows along the axis."""
    shape = types[node.inputs[0]].shape
    return row_indices(node.inputs[1], shape[axis_of(node, shape, 0)])


@register
class ScatterElements(Scattering):
    """X with elements of U at the rows along an axis that numbers name.

    What becomes of an element that gets another is `reduction`; several do so in the indices' order.

    Numbers count from the end where they are negative; one that is no row changes nothing.
    """

    name = "ScatterElements"
    file = FileSpec(versions=(11, 13, 16, 18))
    numerics = Numerics(indices=_scatter_elements_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        axis = axis_of(node, x.shape, 0, inputs)
        check_elements_ids(node, x, ids, axis, inputs)
        check_reduction(node)
        if updates != TensorType(x.dtype, ids.shape):
            raise mismatch(node, "the updates do not have X's element type and the indices' shape", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Elements put in one by one."""
        x, ids, updates = arrays(inputs, 3)
        axis, y = axis_of(node, x.shape, 0), x.copy()
        where, present = grid(ids, x.shape[axis], axis)
        put(y, tuple(place[present] for place in where), updates[present], node.attr_str("reduction", "none"))
        return (y,)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dU is dY at those elements; dX is dY, without those elements where they are replaced."""
        reduction = node.attr_str("reduction", "none")
        if reduction not in ("none", "add"):
            raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: its reduction is {reduction!r}")
        axis, ids = axis_of(node, b.type(node.inputs[0]).shape, 0), node.inputs[1]
        if b.needs_grad(2):
            b.emit("GatherElements", (douts[0], ids), (b.grad(2),), axis=axis)
        if b.needs_grad(0) and reduction == "add":
            b.emit("Identity", douts[:1], (b.grad(0),))
        elif b.needs_grad(0):
            zeros = b.temp("zeros")
            expand_to(b, b.constant("zero", np.array(0, np.float32)), b.type(ids).shape, zeros)
            b.emit("ScatterElements", (douts[0], ids, zeros), (b.grad(0),), axis=axis)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices changes rows of its tile of Y."""
        x, ids, updates = node.inputs
        check_floats(node, types[x])
        axis = axis_of(node, types[x].shape, 0)
        o, r, i = lines(types[x].shape, axis)
        count = types[ids].shape[axis]
        check_lines(node, types[x], types[ids])
        return self.scatter({"x": x, "ids": ids, "u": updates, "y": node.outputs[0]}, (o, r, i, count))


def check_reduction(node: Node) -> None:
    """UnsupportedOperator where the reduction is none of those there are."""
    reduction = node.attr_str("reduction", "none")
    if reduction not in REDUCTIONS:
        raise unsupported(node, f"its reduction is {reduction!r}", f"one of {', '.join(REDUCTIONS)}")


def check_lines(node: Node, x: TensorType, ids: TensorType) -> None:
    """UnsupportedOperator unless there are indices for all lines of X along the axis."""
    axis = axis_of(node, x.shape, 0)
    (o, _, i), (outer, _, inner) = lines(x.shape, axis), lines(ids.shape, axis)
    if (o, i) != (outer, inner):
        raise unsupported(node, "its indices leave out the ends of other axes", "indices for all lines of X")


@register
class Scatter(Operator):
    """The older name of ScatterElements that replaces.

    ScatterElements, which ONNX has from version 11 on, where this name is deprecated.
    """

    name = "Scatter"
    file = FileSpec(versions=(9,))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        return ScatterElements().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of ScatterElements."""
        return ScatterElements().reference(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The same node under the newer name."""
        if inputs[0] is not None and inputs[1] is not None:
            check_lines(node, inputs[0], inputs[1])
        return [Node(node.name, "ScatterElements", node.inputs, node.outputs, node.attrs)]


@register
class ScatterND(Operator):
    """X with parts of U at places along its first axes. Made of RowNumbers and ScatterRows over X as rows."""

    name = "ScatterND"
    file = FileSpec(versions=(11, 13, 16, 18))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        check_ids(node, ids, inputs)
        check_reduction(node)
        count = ids.shape[-1] if ids.shape else 0
        if not 1 <= count <= len(x.shape) or updates != TensorType(x.dtype, (*ids.shape[:-1], *x.shape[count:])):
            raise mismatch(node, "places do not lie within X, or the updates are not parts of it", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Parts put in one by one."""
        x, ids, updates = arrays(inputs, 3)
        y, count = x.copy(), ids.shape[-1]
        sizes = np.array(x.shape[:count])
        places = ids.reshape(-1, count) + sizes * (ids.reshape(-1, count) < 0)
        put(y, tuple(places.T), updates.reshape(-1, *x.shape[count:]), node.attr_str("reduction", "none"))
        return (y,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and rows put there."""
        x, ids, _ = operands(node, inputs, 3)
        count = ids.shape[-1]
        table = (math.prod(x.shape[:count]), math.prod(x.shape[count:]))
        lines = math.prod(ids.shape[:-1])
        numbers, flat, rows, new, put_in = (f"{node.name}/{x}" for x in ("numbers", "flat", "rows", "new", "put"))
        attrs: dict[str, AttrValue] = {"reduction": node.attr_str("reduction", "none")}
        return [
            Node(numbers, "RowNumbers", node.inputs[1:2], (numbers,), {"sizes": x.shape[:count], "each": lines}),
            Node(flat, "Reshape", (numbers,), (flat,), {"shape": (lines,)}),
            Node(rows, "Reshape", node.inputs[:1], (rows,), {"shape": table}),
            Node(new, "Reshape", node.inputs[2:], (new,), {"shape": (lines, table[1])}),
            Node(put_in, "ScatterRows", (rows, flat, new), (put_in,), attrs),
            Node(node.name, "Reshape", (put_in,), node.outputs, {"shape": x.shape}),
        ]


def _scatter_rows_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The numbers, of rows of X."""
    return row_indices(node.inputs[1], types[node.inputs[0]].shape[0])


@register
class ScatterRows(Scattering):
    """A table with rows of U in place of those that numbers name: a step of ScatterND.

    X[R, n], numbers[k], U[k, n]; several rows that go to one do so in the numbers' order.
    """

    name = "ScatterRows"
    file = FileSpec(custom=Signature((3, 3), (1, 1), {"reduction": "STRING"}))
    numerics = Numerics(indices=_scatter_rows_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, ids, updates = operands(node, inputs, 3)
        check_ids(node, ids, inputs)
        check_reduction(node)
        if len(x.shape) != 2 or updates != TensorType(x.dtype, (*ids.shape, x.shape[1])) or len(ids.shape) != 1:
            raise mismatch(node, "the updates are not rows of X, one for each number", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Rows put in one by one; a number that is no row changes nothing."""
        x, ids, updates = arrays(inputs, 3)
        rows, y = from_the_front(ids, x.shape[0]), x.copy()
        put(y, (rows[rows >= 0],), updates[rows >= 0], node.attr_str("reduction", "none"))
        return (y,)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dU is dY at those rows; dX is dY, without those rows where they are replaced."""
        reduction = node.attr_str("reduction", "none")
        if reduction not in ("none", "add"):
            raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient: its reduction is {reduction!r}")
        ids = node.inputs[1]
        if b.needs_grad(2):
            b.emit("Gather", (douts[0], ids), (b.grad(2),), axis=0)
        if b.needs_grad(0) and reduction == "add":
            b.emit("Identity", douts[:1], (b.grad(0),))
        elif b.needs_grad(0):
            zeros = b.temp("zeros")
            expand_to(b, b.constant("zero", np.array(0, np.float32)), b.type(node.inputs[2]).shape, zeros)
            b.emit("ScatterRows", (douts[0], ids, zeros), (b.grad(0),))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of numbers changes rows of its tile of Y."""
        x, ids, updates = node.inputs
        check_floats(node, types[x])
        rows, columns = types[x].shape
        tensors = {"x": x, "ids": ids, "u": updates, "y": node.outputs[0]}
        return self.scatter(tensors, (1, rows, columns, types[ids].size), spread=True)
