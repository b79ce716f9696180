"""What operators over single elements of a table share: a number for each, and their dims in kernels."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    CType,
    Extent,
    First,
    Kernel,
    Operator,
    Start,
    Stride,
    Work,
    mismatch,
    unsupported,
)
from deployer.operators.lookup.table import check_ids, from_the_front

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
    """Y of dims o, r and i gets elements of U at the rows that numbers of dims o, k and i name, ascending in k."""

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

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
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
