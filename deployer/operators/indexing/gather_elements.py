"""Selection of single elements by index, and the gradients."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.ir import TABLE, AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.core.traits.training import Training
from deployer.operators.base.axes import axis_of, lines
from deployer.operators.base.operands import arrays, operands
from deployer.operators.indexing.gather import absent, check_ids, from_the_front, row_indices
from deployer.operators.movement.slicing import Pick, put_back


@register
class GatherND(Operator):
    """Parts of X by places along its first axes.

    Made of RowNumbers, and Gather from X as rows; a place that is outside gives NaN.
    """

    name = "GatherND"
    training = Training(learned={0: TABLE})
    file = FileSpec(versions=(11, 12, 13))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The indices' shape without the last axis, and what is left of X's."""
        x, ids = operands(node, inputs, 2)
        check_ids(node, ids, inputs)
        batch = node.attr_int("batch_dims", 0)
        count = ids.shape[-1] if ids.shape else 0
        if (
            not 0 <= batch < len(ids.shape)
            or not 1 <= count <= len(x.shape) - batch
            or x.shape[:batch] != ids.shape[:batch]
        ):
            raise mismatch(node, f"places do not lie within X with {batch} batch dims", inputs)
        return (TensorType(x.dtype, (*ids.shape[:-1], *x.shape[batch + count :])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's choice by several arrays, batch by batch."""
        x, ids = arrays(inputs, 2)
        batch = node.attr_int("batch_dims", 0)
        tables, places = x.reshape(-1, *x.shape[batch:]), ids.reshape(-1, *ids.shape[batch:])
        y = np.stack([t[tuple(np.moveaxis(p, -1, 0))] for t, p in zip(tables, places, strict=True)])
        return (y.reshape(*ids.shape[:-1], *x.shape[batch + ids.shape[-1] :]),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and a Gather of these."""
        x, ids = operands(node, inputs, 2)
        batch, count = node.attr_int("batch_dims", 0), ids.shape[-1]
        table = (math.prod(x.shape[: batch + count]), math.prod(x.shape[batch + count :]))
        numbers, rows, taken = (f"{node.name}/{label}" for label in ("numbers", "rows", "taken"))
        attrs: dict[str, AttrValue] = {
            "sizes": x.shape[batch : batch + count],
            "each": math.prod(ids.shape[batch:-1]),
        }
        shape = self.infer(node, inputs)[0].shape
        return [
            Node(numbers, "RowNumbers", node.inputs[1:], (numbers,), attrs),
            Node(rows, "Reshape", node.inputs[:1], (rows,), {"shape": table}),
            Node(taken, "Gather", (rows, numbers), (taken,), {"axis": 0}),
            Node(node.name, "Reshape", (taken,), node.outputs, {"shape": shape}),
        ]


INPUTS = 3


@register
class GatherNDGrad(Operator):
    """dX of a GatherND, the sums of dY over the places of each part.

    ONNX Runtime's, of X's shape, the places and dY; made of RowNumbers, and GatherGrad of X as rows.
    """

    name = "GatherNDGrad"
    file = FileSpec(custom=Signature((INPUTS, INPUTS), (1, 1), {"batch_dims": "INT"}), static_inputs={0: "shape"})
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        _, ids, dy = (*inputs, *[None] * INPUTS)[:INPUTS]
        if ids is None or dy is None:
            raise mismatch(node, "places or dY are absent", inputs)
        x = TensorType(dy.dtype, node.attr_ints("shape", ()))
        if registry()["GatherND"].infer(node, (x, ids)) != (dy,):
            raise mismatch(node, f"dY is not what the places take from X of shape {x.shape}", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added part by part."""
        ids, dy = (x for x in inputs if x is not None)
        shape, batch, count = node.attr_ints("shape", ()), node.attr_int("batch_dims", 0), ids.shape[-1]
        dx = np.zeros(shape, dy.dtype)
        tables = dx.reshape(-1, *shape[batch:])
        places, rows = ids.reshape(len(tables), -1, count), dy.reshape(len(tables), -1, *shape[batch + count :])
        for table, at, row in zip(tables, places, rows, strict=True):
            np.add.at(table, tuple(at.T), row)
        return (dx,)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Numbers of rows, and the sums of what lies at each."""
        _, ids, _ = (*inputs, *[None] * INPUTS)[:INPUTS]
        assert ids is not None
        shape, batch, count = node.attr_ints("shape", ()), node.attr_int("batch_dims", 0), ids.shape[-1]
        table = (math.prod(shape[: batch + count]), math.prod(shape[batch + count :]))
        numbers, rows, total = (f"{node.name}/{label}" for label in ("numbers", "rows", "total"))
        attrs: dict[str, AttrValue] = {"sizes": shape[batch : batch + count], "each": math.prod(ids.shape[batch:-1])}
        wide = (*ids.shape[:-1], table[1])
        return [
            Node(numbers, "RowNumbers", node.inputs[1:2], (numbers,), attrs),
            Node(rows, "Reshape", node.inputs[2:], (rows,), {"shape": wide}),
            Node(total, "GatherGrad", ("", numbers, rows), (total,), {"axis": 0, "shape": table}),
            Node(node.name, "Reshape", (total,), node.outputs, {"shape": shape}),
        ]


# Scatter over single elements: an index for each element of a table.

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""What becomes of an element that gets another; the kernel knows them by their place here."""
LENGTHS: tuple[tuple[str, CType], ...] = tuple((name, "u32") for name in ("o", "k", "i", "rows", "r", "r_start"))
SCATTER = Kernel(
    "scatter_elements_f32",
    pointers=(
        *(("x", "float32", False), ("ids", "int32", False)),
        *(("u", "float32", False), ("y", "float32", True)),
    ),
    scalars=(
        *LENGTHS,
        *(
            (f"{arg}_{dim}", "u32")
            for arg, dims in (("x", "or"), ("ids", "oki"), ("u", "ok"), ("y", "or"))
            for dim in dims
        ),
        *(("mode", "u32"), ("first", "u32")),
    ),
)
"""Elements of U put into those of X that the numbers name; zeros in place of X where that is absent."""


def element_args(access: Access) -> dict[str, ArgValue]:
    """Loop lengths, rows of the whole table and the tile's first, strides of all operands, `first`."""
    values: dict[str, ArgValue] = {name: Extent(name) for name in "okir"}
    for operand in access.operands:
        for at, (axis, name) in enumerate(zip(operand.axes, "oki", strict=True)):
            dim = axis.dim if isinstance(axis, At) else name
            if dim != "i" or operand.arg == "ids":
                values[f"{operand.arg}_{dim}"] = Stride(operand.arg, at) if isinstance(axis, At) else Const(0)
    return {**values, "rows": Const(access.dim("r").size), "r_start": Start("r"), "first": First()}


def check_elements_ids(
    node: Node, table: TensorType, ids: TensorType, axis: int, inputs: Sequence[TensorType | None]
) -> None:
    """Raise where the numbers are no integers, or do not lie within the table on the other axes."""
    check_ids(node, ids, inputs)
    if len(ids.shape) != len(table.shape):
        raise mismatch(node, f"the indices have {len(ids.shape)} axes, the table {len(table.shape)}", inputs)
    for at, (count, size) in enumerate(zip(ids.shape, table.shape, strict=True)):
        if at != axis and count > size:
            raise mismatch(node, f"the indices have {count} elements along axis {at}, the table {size}", inputs)


def grid(ids: Array, rows: int, axis: int) -> tuple[tuple[Array, ...], Array]:
    """The place in the table of each number, as numpy takes it, and where there is such a row."""
    front = from_the_front(ids, rows)
    places: list[Array] = list(np.indices(ids.shape, sparse=True))
    places[axis] = np.maximum(front, 0)
    return tuple(np.broadcast_arrays(*places)), np.asarray(front >= 0)


class Scattering(Operator):
    """Writes elements of U to rows of Y of dims o, r and i, by indices of dims o, k and i, ascending in k."""

    kernel: ClassVar[Kernel] = SCATTER

    def scatter(self, tensors: Mapping[str, str], sizes: tuple[int, int, int, int], spread: bool = False) -> Access:
        """The access for operands by kernel argument and sizes o, r, i, k; `spread` says that numbers have only k."""
        lengths = dict(zip("orik", sizes, strict=True))
        listed = []
        for arg, dims in (("x", "ori"), ("ids", "oki"), ("u", "oki"), ("y", "ori")):
            if arg not in tensors:
                continue
            alone = spread and arg == "ids"
            axes: tuple[Axis, ...] = tuple(Broadcast() if alone and d != "k" else At(d) for d in dims)
            view = tuple(1 if isinstance(axis, Broadcast) else lengths[d] for axis, d in zip(axes, dims, strict=True))
            listed.append(Operand(arg, tensors[arg], "out" if arg == "y" else "in", view, axes))
        parallel = tuple(Dim(d, lengths[d]) for d in "ori")
        return Access((*parallel, Dim("k", lengths["k"], "reduction")), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of all elements, and what becomes of an element that gets another."""
        mode = REDUCTIONS.index(node.attr_str("reduction", self.usual))
        absent: dict[str, ArgValue] = {"x_o": Const(0), "x_r": Const(0)}
        return {**absent, **element_args(access), "mode": Const(mode)}

    usual: ClassVar[str] = "none"
    """The reduction of a node that says none."""

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A copy per element of Y, and an element of U for each, shared out over the tiles of rows."""
        columns = tile["o"] * tile["i"]
        added = -(-tile["k"] * tile["r"] // access.dim("r").size)
        cleared = -(-tile["r"] * tile["k"] // access.dim("k").size)
        return Work(macs=0, elements=columns * (added + cleared) + tile["k"], parallel=columns)


def check_floats(node: Node, kind: TensorType) -> None:
    """UnsupportedOperator where a table of integers is needed at run time."""
    if kind.dtype != "float32":
        raise unsupported(node, "integer operands reach the target", "constant integer operands, which are folded")


def put(y: Array, where: tuple[Array, ...], updates: Array, reduction: str) -> None:
    """Elements of Y that get others, one after another in row-major order."""
    if reduction == "none":
        y[where] = updates
        return
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    functions[reduction].at(y, where, updates)


def _gather_elements_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of rows along the axis."""
    shape = types[node.inputs[0]].shape
    return row_indices(node.inputs[1], shape[axis_of(node, shape, 0)])


@register
class GatherElements(Operator):
    """For each number an element of X, from the row of that number along an axis.

    Numbers count from the end where they are negative; one that is no row gives NaN.
    """

    name = "GatherElements"
    file = FileSpec(versions=(11, 13))
    kernel = Kernel(
        "gather_elements_f32",
        pointers=(("x", "float32", False), ("ids", "int32", False), ("y", "float32", True)),
        scalars=(*LENGTHS, *((n, "u32") for n in ("x_o", "x_r", "ids_o", "ids_k", "ids_i", "y_o", "y_k", "first"))),
    )
    execution = Execution(moved=("x", "y"))
    numerics = Numerics(indices=_gather_elements_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of the indices."""
        x, ids = operands(node, inputs, 2)
        check_elements_ids(node, x, ids, axis_of(node, x.shape, 0, inputs), inputs)
        return (TensorType(x.dtype, ids.shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Elements at the places of a grid; what `absent` says for a number that is no row."""
        x, ids = arrays(inputs, 2)
        axis = axis_of(node, x.shape, 0)
        where, present = grid(ids, x.shape[axis], axis)
        return (x[where] if present.all() else np.where(present, x[where], absent(x.dtype)),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY at the elements that were taken, added up; zero elsewhere."""
        if not b.needs_grad(0):
            return
        picks = _picks(node, b.type(node.inputs[0]), b.type(node.inputs[1]))
        picked = b.grad(0) if all(p.everything for p in picks) else b.temp("part")
        size = b.constant("shape", np.array([p.count for p in picks], np.int64))
        axis = axis_of(node, b.type(node.inputs[0]).shape, 0)
        b.emit("GatherElementsGrad", (douts[0], size, node.inputs[1]), (picked,), axis=axis)
        if picked != b.grad(0):
            put_back(b, picked, picks, b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Slice before it where the indices leave out the ends of other axes."""
        x, ids = operands(node, inputs, 2)
        picks = _picks(node, x, ids)
        if all(p.everything for p in picks):
            return None
        picked, ends = f"{node.name}/part", tuple(p.count for p in picks)
        return [
            Node(picked, "Slice", node.inputs[:1], (picked,), {"starts": (0,) * len(ends), "ends": ends}),
            Node(node.name, node.op, (picked, node.inputs[1]), node.outputs, node.attrs),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, k, i of the indices, and rows as the reduction r."""
        x, ids = types[node.inputs[0]], types[node.inputs[1]]
        axis = axis_of(node, x.shape, 0)
        (o, r, i), k = lines(x.shape, axis), ids.shape[axis]
        ends = (At("o"), At("k"), At("i"))
        listed = (
            Operand("x", node.inputs[0], "in", (o, r, i), (At("o"), At("r"), At("i"))),
            Operand("ids", node.inputs[1], "in", (o, k, i), ends),
            Operand("y", node.outputs[0], "out", (o, k, i), ends),
        )
        return Access((Dim("o", o), Dim("k", k), Dim("i", i), Dim("r", r, "reduction")), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of all elements."""
        return element_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A look at each number."""
        count = math.prod(tile[d] for d in "oki")
        return Work(macs=0, elements=count, parallel=count)


def _picks(node: Node, x: TensorType, ids: TensorType) -> list[Pick]:
    """Return the elements of each axis of X that the indices can reach."""
    picks = [Pick(size, 0, 1, count) for size, count in zip(x.shape, ids.shape, strict=True)]
    axis = axis_of(node, x.shape, 0)
    picks[axis] = Pick(x.shape[axis], 0, 1, x.shape[axis])
    return picks


def _gather_elements_grad_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The third input, of rows of X."""
    shape = node.attr_ints("shape", ())
    return row_indices(node.inputs[2], shape[axis_of(node, shape, 0)])


@register
class GatherElementsGrad(Scattering):
    """dX of a GatherElements, zeros to which dY is added at the elements that were taken.

    dY, X's shape and indices, as ONNX Runtime has them. What adds to one element does so in the indices' order.
    """

    name = "GatherElementsGrad"
    file = FileSpec(custom=Signature((3, 3), (1, 1), {"axis": "INT"}), static_inputs={1: "shape"})
    usual = "add"
    no_gradient = "it belongs to a backward pass"
    numerics = Numerics(indices=_gather_elements_grad_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        dy, _, ids = (*inputs, None, None, None)[:3]
        if ids is None or dy is None:
            raise mismatch(node, "dY or indices are absent", inputs)
        x = TensorType(dy.dtype, node.attr_ints("shape", ()))
        axis = axis_of(node, x.shape, 0, inputs)
        check_elements_ids(node, x, ids, axis, inputs)
        others = all(a == b for at, (a, b) in enumerate(zip(x.shape, ids.shape, strict=True)) if at != axis)
        if dy.shape != ids.shape or not others:
            raise mismatch(node, f"dY and indices are not of X's shape, {x.shape}, besides axis {axis}", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added number by number; one that is no row adds to none."""
        dy, ids = (v for v in inputs if v is not None)
        dx = np.zeros(node.attr_ints("shape", ()), dy.dtype)
        axis = axis_of(node, dx.shape, 0)
        where, present = grid(ids, dx.shape[axis], axis)
        put(dx, tuple(place[present] for place in where), dy[present], "add")
        return (dx,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices adds to the rows of its tile of X."""
        dy, _, ids = node.inputs
        shape = node.attr_ints("shape", ())
        axis = axis_of(node, shape, 0)
        sizes = (*lines(shape, axis), types[ids].shape[axis])
        return self.scatter({"ids": ids, "u": dy, "y": node.outputs[0]}, sizes)
