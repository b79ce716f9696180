"""What Gather and its gradient share: a table as [outer, rows, inner], and the numbers of rows."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, CType, Extent, First, Start, Stride, mismatch
from deployer.operators.view import normalized_axes

TABLE_SCALARS: tuple[tuple[str, CType], ...] = tuple((name, "u32") for name in ("o", "k", "i", "rows", "r", "r_start"))
"""Kernel scalars that `table_args` fills, besides strides and `first`."""

MORE_ROWS = "renumber the indices, or a table with more rows"


def table_axis(node: Node, table: Sequence[int], inputs: Sequence[TensorType | None]) -> int:
    """The axis of the rows, counted from the front."""
    return normalized_axes(node, (node.attr_int("axis", 0),), len(table), inputs)[0]


def check_ids(node: Node, ids: TensorType, inputs: Sequence[TensorType | None]) -> None:
    """Raise ShapeMismatch where the numbers of rows are no integers."""
    if ids.dtype != "int32":
        raise mismatch(node, "its indices are no integers", inputs)


def absent(dtype: np.dtype[Any]) -> Array:
    """What a number that is no row gives: NaN, or the integer of float32 NaN's bits, since kernels move words."""
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
