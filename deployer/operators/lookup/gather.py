"""Gather: parts of X along an axis, as numbers say, such as the rows of a table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import Indices
from deployer.core.ir import TABLE, AttrValue, Node, TensorType
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
from deployer.operators.copies.selection import Pick
from deployer.operators.copies.slice import put_back
from deployer.operators.inputs import normal, operands, words
from deployer.operators.lookup.table import (
    TABLE_SCALARS,
    absent,
    check_ids,
    from_the_front,
    row_indices,
    table_access,
    table_args,
    table_axis,
)
from deployer.operators.view import reshape_to


@register
class Gather(Operator):
    """X and indices, which count from the end where they are negative. Constant ones with a step are an attribute."""

    name = "Gather"
    learned: ClassVar[dict[int, str]] = {0: TABLE}
    versions = (1, 11, 13)
    kernel = Kernel(
        "gather_f32",
        pointers=(("x", "float32", False), ("ids", "int32", False), ("y", "float32", True)),
        scalars=(*TABLE_SCALARS, *((name, "u32") for name in ("x_o", "x_r", "y_o", "y_k", "first"))),
    )
    moved = ("x", "y")
    static_inputs: ClassVar[dict[int, str]] = {1: "indices"}

    def is_static(self, position: int, value: Array | None) -> bool:
        """Where the indices are a number, or as far apart as each other and ascending: a Slice takes those."""
        if value is None or value.ndim > 1:
            return False
        steps: Array = np.diff(value.reshape(-1))
        one_step = value.size < 2 or bool((steps == steps[0]).all() and steps[0] > 0)
        return one_step and bool((value < 0).all() or (value >= 0).all())

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

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices | None:
        """The second input, of rows of the first."""
        if "indices" in node.attrs:
            return None
        shape = types[node.inputs[0]].shape
        return row_indices(node.inputs[1], shape[node.attr_int("axis", 0)])

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
            part = b.temp("part")
            reshape_to(b, dy, tuple(p.count for p in picks), part)
            dy = part
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
        part, shape = f"{node.name}/part", self.infer(node, inputs)[0].shape
        return [
            Node(part, "Slice", node.inputs[:1], (part,), attrs),
            Node(node.name, "Reshape", (part,), node.outputs, {"shape": shape}),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Each tile of rows gives the numbers among them their part of Y."""
        x, ids = node.inputs
        y = node.outputs[0]
        return table_access(node, (x, types[x]), (y, types[y]), (ids, types[ids].size), forward=True)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of the table."""
        return table_args(access)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One copy per element of Y, shared out over the tiles of rows."""
        count = math.prod(tile[d] for d in "oki")
        shared = -(-count * tile["r"] // access.dim("r").size)
        return Work(macs=0, elements=shared + tile["o"] * tile["k"], parallel=count)

    def samples(self) -> Iterator[Sample]:
        """Rows, columns, axes in the middle; numbers of any shape, negative and repeated; constants with a step."""
        r = rng(111)
        forms: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
            "rows": ((6, 6), 0, (4,)),
            "columns": ((4, 9), 1, (6,)),
            "sentence": ((11, 6), 0, (2, 5)),
            "middle": ((2, 5, 3), 1, (2, 2)),
            "last": ((3, 4, 6), -1, (7,)),
            "one": ((6, 4), 0, ()),
            "single": ((5,), 0, (3,)),
        }
        for label, (shape, axis, ids) in forms.items():
            yield Sample(label, (normal(r, *shape), _drawn(r, shape[axis], *ids)), {"axis": axis})
        constants: dict[str, AttrValue] = {"range": (1, 2, 3), "steps": (-6, -4, -2), "all": (0, 1, 2, 3, 4, 5)}
        for label, value in constants.items():
            yield Sample(label, (normal(r, 2, 6, 3),), {"axis": 1, "indices": value})
        yield Sample("integers", (words(r, 2, 5, 3), _drawn(r, 5, 2, 4)), {"axis": 1})
        yield Sample("number", (normal(r, 3, 4, 2),), {"indices": -2}, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Tables of several sizes."""
        r = rng(112)
        for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
            yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns), _drawn(r, rows, count)))


def _drawn(r: np.random.Generator, rows: int, *shape: int) -> Array:
    """Numbers of rows, from the front and from the end."""
    return np.asarray(r.integers(-rows, rows, shape), np.int32)


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
