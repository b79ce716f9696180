"""Selection of rows by index, its gradient, and OneHot."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import TensorProto

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import TABLE, AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.core.traits.training import Training
from deployer.operators.base.operands import operands
from deployer.operators.base.views import normalized_axes, reshape_to
from deployer.operators.movement.slicing import Pick, put_back

# Tables as [outer, rows, inner], and indices of rows.

TABLE_SCALARS: tuple[tuple[str, CType], ...] = tuple((name, "u32") for name in ("o", "k", "i", "rows", "r", "r_start"))
"""Kernel scalars that `table_args` fills, besides strides and `first`."""

MORE_ROWS = "renumber the indices, or a table with more rows"


def table_axis(node: Node, table: Sequence[int], inputs: Sequence[TensorType | None]) -> int:
    """The axis of the rows, counted from the front."""
    return normalized_axes(node, (node.attr_int("axis", 0),), len(table), inputs)[0]


def check_ids(node: Node, ids: TensorType, inputs: Sequence[TensorType | None]) -> None:
    """Raise ShapeMismatch where the numbers of rows are no integers."""
    if ids.dtype != "int32":
        raise mismatch(node, "its indices are not integers", inputs)


def absent(dtype: np.dtype[Any]) -> Array:
    """Value read for an invalid row index: NaN, or the integer of float32 NaN's bits, since kernels move words."""
    nan = np.array(np.nan, np.float32)
    return nan.astype(dtype) if dtype.kind == "f" else nan.view(np.int32).astype(dtype)


def row_indices(ids: str, rows: int) -> Indices:
    """The numbers of rows, which count from the end where they are negative."""
    return Indices(ids, 2 * rows, -rows, word="index", among="rows", hint=MORE_ROWS)


def place_indices(ids: str, sizes: Sequence[int]) -> Indices:
    """Places of rows along several axes, an index per axis, which counts from the end where it is negative."""
    largest = max(sizes)
    return Indices(ids, 2 * largest, -largest, word="index", among="rows", hint=MORE_ROWS, sizes=tuple(sizes))


def from_the_front(ids: Array, rows: int) -> Array:
    """The numbers of rows from the front; -1 where there is no such row."""
    front: Array = ids.astype("i8")
    front = front + rows * (front < 0)
    front[(front < 0) | (front >= rows)] = -1
    return front


def table_access(
    node: Node, table: tuple[str, TensorType], lines: tuple[str, TensorType], ids: tuple[str, int], forward: bool
) -> Access:
    """Dims o, k (numbers), i and r (rows): one tensor is read and one written, which sums over the dim it lacks."""
    axis = node.attr_int("axis", 0) % len(table[1].shape)
    shape = table[1].shape
    sizes = {"o": math.prod(shape[:axis]), "r": shape[axis], "i": math.prod(shape[axis + 1 :]), "k": ids[1]}

    def operand(arg: str, tensor: str, dims: str, written: bool) -> Operand:
        view, axes = tuple(sizes[d] for d in dims), tuple(map(At, dims))
        return Operand(arg, tensor, "out" if written else "in", view, axes)

    numbers = operand("ids", ids[0], "k", False)
    if forward:
        listed = (operand("x", table[0], "ori", False), numbers, operand("y", lines[0], "oki", True))
    else:
        listed = (numbers, operand("dy", lines[0], "oki", False), operand("dx", table[0], "ori", True))
    parallel, summed = ("oki", "r") if forward else ("ori", "k")
    dims = (*(Dim(d, sizes[d]) for d in parallel), Dim(summed, sizes[summed], "reduction"))
    return Access(dims, listed)


def table_args(access: Access) -> dict[str, ArgValue]:
    """Loop lengths, the rows of the whole table and the tile's first, and the strides of both tensors."""
    values: Mapping[str, ArgValue] = {name: Extent(name) for name in "okir"}
    strides: dict[str, ArgValue] = {}
    for operand in access.operands:
        if len(operand.axes) > 1:
            names = [axis.dim for axis in operand.axes if isinstance(axis, At)]
            strides |= {f"{operand.arg}_{name}": Stride(operand.arg, at) for at, name in enumerate(names[:-1])}
    return {**values, "rows": Const(access.dim("r").size), "r_start": Start("r"), **strides, "first": First()}


def _gather_indices(node: Node, types: Mapping[str, TensorType]) -> Indices | None:
    """The second input, of rows of the first."""
    if "indices" in node.attrs:
        return None
    shape = types[node.inputs[0]].shape
    return row_indices(node.inputs[1], shape[node.attr_int("axis", 0)])


def _is_static(position: int, value: Array | None) -> bool:
    """Whether the indices are a constant scalar or an ascending arithmetic sequence, which a Slice can take."""
    if value is None or value.ndim > 1:
        return False
    steps: Array = np.diff(value.reshape(-1))
    one_step = value.size < 2 or bool((steps == steps[0]).all() and steps[0] > 0)
    return one_step and bool((value < 0).all() or (value >= 0).all())


@register
class Gather(Operator):
    """Parts of X along an axis, as numbers say, such as the rows of a table.

    X and indices, which count from the end where they are negative. Constant ones with a step are an attribute.
    """

    name = "Gather"
    training = Training(learned={0: TABLE})
    kernel = Kernel(
        "gather_f32",
        pointers=(("x", "float32", False), ("ids", "int32", False), ("y", "float32", True)),
        scalars=(*TABLE_SCALARS, *((name, "u32") for name in ("x_o", "x_r", "y_o", "y_k", "first"))),
    )
    execution = Execution(moved=("x", "y"))
    file = FileSpec(versions=(1, 11, 13), static_inputs={1: "indices"}, is_static=_is_static)
    numerics = Numerics(indices=_gather_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape with that of the indices in place of the axis."""
        x = operands(node, inputs, 1)[0]
        axis = table_axis(node, x.shape, inputs)
        shape: tuple[int, ...]
        if "indices" in node.attrs:
            shape = () if isinstance(node.attrs["indices"], int) else (_pick(node, x.shape[axis]).count,)
        else:
            ids = operands(node, inputs, 2)[1]
            check_ids(node, ids, inputs)
            shape = ids.shape
        return (TensorType(x.dtype, (*x.shape[:axis], *shape, *x.shape[axis + 1 :])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's take; what `absent` says for a number that is no row."""
        x, *rest = (v for v in inputs if v is not None)
        axis = node.attr_int("axis", 0)
        ids = rest[0] if rest else np.asarray(node.attrs["indices"], np.int64)
        rows = np.asarray(from_the_front(np.atleast_1d(ids), x.shape[axis])).reshape(ids.shape)
        y = np.take(x, np.maximum(rows, 0), axis)
        if (rows < 0).any():
            axis %= x.ndim
            outside = (rows < 0).reshape(*rows.shape, *[1] * (x.ndim - axis - 1))
            y = np.where(outside, absent(x.dtype), y)
        return (np.ascontiguousarray(y),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY at the rows that were taken, and zero elsewhere; GatherGrad adds up what was taken several times."""
        if not b.needs_grad(0):
            return
        x, dy = b.type(node.inputs[0]), douts[0]
        axis = table_axis(node, x.shape, (x,))
        if "indices" not in node.attrs:
            shape = b.constant("shape", np.array(x.shape, np.int64))
            b.emit("GatherGrad", (shape, node.inputs[1], dy), (b.grad(0),), axis=axis)
            return
        picks = [Pick(n, 0, 1, n) for n in x.shape]
        picks[axis] = _pick(node, x.shape[axis])
        if isinstance(node.attrs["indices"], int):
            picked = b.temp("part")
            reshape_to(b, dy, tuple(p.count for p in picks), picked)
            dy = picked
        put_back(b, dy, picks, b.grad(0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Slice where the indices are an attribute, without the axis for a single number."""
        if "indices" not in node.attrs:
            return None
        x = operands(node, inputs, 1)[0]
        axis = table_axis(node, x.shape, inputs)
        p = _pick(node, x.shape[axis])
        ends = p.first + (p.count - 1) * p.step + 1
        attrs: dict[str, AttrValue] = {"starts": (p.first,), "ends": (ends,), "axes": (axis,), "steps": (p.step,)}
        if not isinstance(node.attrs["indices"], int):
            return [Node(node.name, "Slice", node.inputs[:1], node.outputs, attrs)]
        picked, shape = f"{node.name}/part", self.infer(node, inputs)[0].shape
        return [
            Node(picked, "Slice", node.inputs[:1], (picked,), attrs),
            Node(node.name, "Reshape", (picked,), node.outputs, {"shape": shape}),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of rows gives the numbers among them their part of Y."""
        x, ids = node.inputs
        y = node.outputs[0]
        return table_access(node, (x, types[x]), (y, types[y]), (ids, types[ids].size), forward=True)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of the table."""
        return table_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One copy per element of Y, shared out over the tiles of rows."""
        count = math.prod(tile[d] for d in "oki")
        shared = -(-count * tile["r"] // access.dim("r").size)
        return Work(macs=0, elements=shared + tile["o"] * tile["k"], parallel=count)


def _pick(node: Node, size: int) -> Pick:
    """The rows that the attribute names; ShapeMismatch where there is no such row."""
    value: Any = node.attrs["indices"]
    given = value if isinstance(value, tuple) else (value,)
    ids = [i + size * (i < 0) for i in given]
    if any(not 0 <= i < size for i in ids):
        raise mismatch(node, f"index {next(i for i in given if not -size <= i < size)} is outside {size} rows", ())
    steps = {b - a for a, b in pairwise(ids)}
    if len(steps) > 1 or min(steps, default=1) < 1:
        raise unsupported(node, f"its indices {tuple(given)} have no one step", "indices as an input")
    return Pick(size, ids[0] if ids else 0, next(iter(steps), 1), len(ids))


def _gather_grad_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of rows of X."""
    return row_indices(node.inputs[1], node.attr_ints("shape", ())[node.attr_int("axis", 0)])


@register
class GatherGrad(Operator):
    """dX of a Gather, the sums of dY over the numbers of each row.

    X's shape, indices and dY, as ONNX Runtime has them. A row's terms are added in the order of the indices.
    """

    name = "GatherGrad"
    kernel = Kernel(
        "gather_grad_f32",
        pointers=(("ids", "int32", False), ("dy", "float32", False), ("dx", "float32", True)),
        scalars=(*TABLE_SCALARS, *((name, "u32") for name in ("dy_o", "dy_k", "dx_o", "dx_r", "first"))),
    )
    file = FileSpec(custom=Signature((3, 3), (1, 1), {"axis": "INT"}), static_inputs={0: "shape"})
    no_gradient = "it belongs to a backward pass"
    numerics = Numerics(indices=_gather_grad_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        _, ids, dy = (*inputs, None, None, None)[:3]
        if ids is None or dy is None:
            raise mismatch(node, "indices or dY are absent", inputs)
        check_ids(node, ids, inputs)
        shape = node.attr_ints("shape", ())
        axis = table_axis(node, shape, inputs)
        if dy.shape != (*shape[:axis], *ids.shape, *shape[axis + 1 :]):
            raise mismatch(node, f"dY does not have X's shape, {shape}, with that of the indices at {axis}", inputs)
        return (TensorType(dy.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Zeros, to which dY is added number by number; one that is no row adds to none."""
        ids, dy = (v for v in inputs if v is not None)
        shape = node.attr_ints("shape", ())
        axis = node.attr_int("axis", 0) % len(shape)
        dx = np.zeros(shape, dy.dtype)
        rows = from_the_front(ids.reshape(-1), shape[axis])
        lines = dy.reshape(*shape[:axis], rows.size, *shape[axis + 1 :])
        np.add.at(np.moveaxis(dx, axis, 0), rows[rows >= 0], np.moveaxis(lines, axis, 0)[rows >= 0])
        return (dx,)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of indices adds to the rows of its tile of X."""
        _, ids, dy = node.inputs
        dx = node.outputs[0]
        return table_access(node, (dx, types[dx]), (dy, types[dy]), (ids, types[ids].size), forward=False)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of the table."""
        return table_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One addition per element of dY, shared out over the tiles of rows, and a zero per element of dX."""
        columns = tile["o"] * tile["i"]
        added = -(-tile["k"] * tile["r"] // access.dim("r").size)
        cleared = -(-tile["r"] * tile["k"] // access.dim("k").size)
        return Work(macs=0, elements=columns * (added + cleared) + tile["k"], parallel=columns)


AXES = 4
"""The most axes of a place: arguments of the kernel."""
NOWHERE = np.iinfo(np.int32).min
"""What a place outside of the table becomes, which is no row of any."""


def _row_numbers_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The places."""
    return place_indices(node.inputs[0], node.attr_ints("sizes", ()))


@register
class RowNumbers(Operator):
    """The number of a row among all from its place along several axes: a step of GatherND and ScatterND.

    Places, along the last axis one index per entry of `sizes`, negative ones from the end.

    Each `each` places in turn belong to a table of their own, behind the one before.
    """

    name = "RowNumbers"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {"sizes": "INTS", "each": "INT"}))
    kernel = Kernel(
        "row_numbers_i32",
        pointers=(("ids", "int32", False), ("y", "int32", True)),
        scalars=tuple(
            (n, "u32") for n in ("n", "n_start", "each", "ids_n", "axes", *(f"size{i}" for i in range(AXES)))
        ),
    )
    no_gradient = "a number has none"
    numerics = Numerics(indices=_row_numbers_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """One number in place of the last axis."""
        ids = operands(node, inputs, 1)[0]
        check_ids(node, ids, inputs)
        sizes = node.attr_ints("sizes", ())
        if not ids.shape or ids.shape[-1] != len(sizes):
            raise mismatch(node, f"a place does not have {len(sizes)} indices", inputs)
        if len(sizes) > AXES:
            raise unsupported(node, f"a place has {len(sizes)} indices", f"at most {AXES}")
        return (TensorType("int32", ids.shape[:-1]),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Horner's scheme over the axes."""
        [ids] = (x for x in inputs if x is not None)
        places = ids.reshape(-1, ids.shape[-1]).astype(np.int64)
        number = np.arange(len(places)) // node.attr_int("each", max(len(places), 1))
        outside = np.zeros(len(places), bool)
        for column, size in zip(places.T, node.attr_ints("sizes", ()), strict=True):
            front = column + size * (column < 0)
            outside |= (front < 0) | (front >= size)
            number = number * size + front
        return (np.where(outside, NOWHERE, number).astype(np.int32).reshape(ids.shape[:-1]),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One dim over places."""
        shape = types[node.inputs[0]].shape
        count = math.prod(shape[:-1])
        listed = (
            Operand("ids", node.inputs[0], "in", (count, shape[-1]), (At("n"), Whole())),
            Operand("y", node.outputs[0], "out", (count,), (At("n"),)),
        )
        return Access((Dim("n", count),), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and first place, and the axes."""
        sizes = node.attr_ints("sizes", ())
        each = node.attr_int("each", access.dim("n").size)
        lengths = {f"size{i}": Const(sizes[i] if i < len(sizes) else 1) for i in range(AXES)}
        own: dict[str, ArgValue] = {
            "n": Extent("n"),
            "n_start": Start("n"),
            "each": Const(each),
            "ids_n": Stride("ids", 0),
        }
        return {**own, "axes": Const(len(sizes)), **lengths}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One step per index."""
        return Work(macs=0, elements=tile["n"] * access.operand("ids").view[1], parallel=tile["n"])


EXACT = 1 << 24
"""Integers up to this are floats."""


@register
class OneHot(Operator):
    """Along a new axis one value where the number is, and another elsewhere.

    Numbers, the depth, and both values: off, on. A number counts from the end where it is negative; one that is
    outside is nowhere. The kernel compares floats, which integers up to EXACT are.
    """

    name = "OneHot"
    kernel = Kernel(
        "one_hot_f32",
        pointers=(("ids", "float32", False), ("values", "float32", False), ("y", "float32", True)),
        scalars=(*((n, "u32") for n in ("o", "d", "i", "d_start", "ids_o", "y_o", "y_d")), ("depth", "f32")),
    )
    execution = Execution(moved=("values", "y"))
    file = FileSpec(versions=(9, 11, 28), static_inputs={1: "depth"})
    no_gradient = "what it depends on by numbers has none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of the numbers with a new axis of `depth` elements, of the values' type."""
        if "depth" not in node.attrs:
            raise unsupported(node, "the depth is not constant", "a constant depth")
        ids, _, values = (*inputs, None, None, None)[:3]
        if ids is None or values is None or values.shape != (2,):
            raise mismatch(node, "the numbers are absent, or the values are not two", inputs)
        depth = _depth(node)
        if not 1 <= depth < EXACT:
            raise unsupported(node, f"the depth is {depth}", f"a depth from 1 to below {EXACT}")
        axis = normalized_axes(node, (node.attr_int("axis", -1),), len(ids.shape) + 1, inputs)[0]
        return (TensorType(values.dtype, (*ids.shape[:axis], depth, *ids.shape[axis:])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's comparison with all numbers."""
        ids, values = (x for x in inputs if x is not None)
        depth, axis = _depth(node), node.attr_int("axis", -1) % (ids.ndim + 1)
        places = np.arange(depth).reshape(-1, *[1] * (ids.ndim - axis))
        numbers = np.expand_dims(np.trunc(ids), axis)
        return (np.where((numbers == places) | (numbers + depth == places), values[1], values[0]),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Integers become floats first."""
        ids = inputs[0]
        if ids is None or ids.dtype == "float32":
            return None
        floats = f"{node.name}/floats"
        return [
            Node(floats, "Cast", node.inputs[:1], (floats,), {"to": TensorProto.FLOAT}),
            Node(node.name, node.op, (floats, *node.inputs[1:]), node.outputs, node.attrs),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, d and i of Y."""
        ids, _, values = node.inputs
        shape = types[ids].shape
        axis = node.attr_int("axis", -1) % (len(shape) + 1)
        o, d, i = math.prod(shape[:axis]), _depth(node), math.prod(shape[axis:])
        listed = (
            Operand("ids", ids, "in", (o, i), (At("o"), At("i"))),
            Operand("values", values, "in", (2,), (Whole(),)),
            Operand("y", node.outputs[0], "out", (o, d, i), (At("o"), At("d"), At("i"))),
        )
        return Access((Dim("o", o), Dim("d", d), Dim("i", i)), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the tile's first place, strides, the depth."""
        return {
            **{name: Extent(name) for name in "odi"},
            **{"d_start": Start("d"), "ids_o": Stride("ids", 0), "y_o": Stride("y", 0), "y_d": Stride("y", 1)},
            "depth": Const(float(_depth(node))),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One comparison per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


def _depth(node: Node) -> int:
    """The depth, which may come as a float or as a list of one."""
    value = node.attrs["depth"]
    number = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    if not isinstance(number, int | float) or number != int(number):
        raise unsupported(node, f"the depth is {value!r}", "a whole number")
    return int(number)
