"""Single elements by index along an axis: gather, scatter, sort, top-k and extremes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers
from deployer.torch.lowerings.places.reductions import reduced, so_far

REDUCTIONS = {
    "add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add",
}  # fmt: skip
"""ONNX's name of what PyTorch does with several elements that go to one place."""
NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}
"""What changes nothing there."""


def lined(g: GraphBuilder, x: Operand, dtype: str = "") -> Value:
    """The operand with at least one axis."""
    value = g.value(x) if not dtype else g.cast(x, dtype)
    return g.reshape(value, value.shape or (1,))


@lowers("gather")
def gather(g: GraphBuilder, x: Value, dim: int, ids: Operand, sparse_grad: bool = False) -> Value:
    """For each number an element from the row of that number."""
    shape = ids.shape if isinstance(ids, Value) else np.shape(ids)
    table, numbers = lined(g, x), lined(g, ids, "int64")
    taken = g.emit("GatherElements", [table, numbers], numbers.shape, x.dtype, axis=table.axis(dim))
    return g.reshape(taken, shape)


def scattered(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand, reduction: str | None) -> Value:
    """x with elements of the source at the places of numbers along an axis; integers go there as floats."""
    if x.dtype != "float32":
        y = scattered(g, g.cast(x, "float32"), dim, ids, g.cast(source, "float32"), reduction)
        return g.cast(y, x.dtype)
    table, numbers = lined(g, x), lined(g, ids, "int64")
    axis = table.axis(dim)
    new = g.cast(source, x.dtype)
    new = g.expand(new, numbers.shape) if not new.rank else new
    for at, size in enumerate(numbers.shape):
        new = g.slice(new, at, 0, size)
    ends = [n if at == axis else m for at, (n, m) in enumerate(zip(table.shape, numbers.shape, strict=True))]
    cut = table
    for at, end in enumerate(ends):
        cut = g.slice(cut, at, 0, end)
    known = g.known(cut)
    if reduction == "add" and known is not None and not known.any() and x.dtype == "float32":
        y = g.emit("GatherElementsGrad", [new, g.ints(cut.shape), numbers], cut.shape, axis=axis)
    else:
        y = g.emit("ScatterElements", [cut, numbers, new], cut.shape, x.dtype, axis=axis, reduction=reduction)
    return g.reshape(_with_ends(g, table, y), x.shape)


def _with_ends(g: GraphBuilder, x: Value, inner: Value) -> Value:
    """x with another part at the front of its axes."""
    for axis in reversed(range(x.rank)):
        size = inner.shape[axis]
        if size < x.shape[axis]:
            rest = g.slice(x, axis, size, x.shape[axis])
            for other in range(axis):
                rest = g.slice(rest, other, 0, inner.shape[other])
            inner = g.concat([inner, rest], axis)
    return inner


@lowers("scatter")
def scatter(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand, *, reduce: str | None = None) -> Value:
    """x with other elements at those rows, added or multiplied to what is there where `reduce` says so."""
    return scattered(g, x, dim, ids, source, REDUCTIONS[reduce] if reduce else None)


@lowers("scatter_add")
def scatter_add(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand) -> Value:
    """x with terms added at those rows."""
    return scattered(g, x, dim, ids, source, "add")


@lowers("scatter_reduce")
def scatter_reduce(
    g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand, reduce: str, include_self: bool = True
) -> Value:
    """x and what goes to the same place together; without `include_self` x stays where nothing goes."""
    reduction = REDUCTIONS[reduce]
    base = x if include_self else scattered(g, x, dim, ids, NEUTRAL[reduction], None)
    y = scattered(g, base, dim, ids, source, reduction)
    if reduce != "mean":
        return y
    first = np.ones(x.shape) if include_self else np.zeros(x.shape)
    counts = g.binary("Max", scattered(g, g.constant(first), dim, ids, 1.0, "add"), 1.0)
    return g.binary("Div", y, counts)


@lowers("index_reduce")
def index_reduce(
    g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """The same with one number for each place along the axis."""
    table, new = lined(g, x), lined(g, source)
    axis = table.axis(dim)
    column = g.reshape(lined(g, ids, "int64"), (new.shape[axis], *[1] * (new.rank - axis - 1)))
    return g.reshape(scatter_reduce(g, table, axis, g.expand(column, new.shape), new, reduce, include_self), x.shape)


@lowers("topk")
def top_k(
    g: GraphBuilder,
    x: Value,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Value, Value]:
    """The k largest or smallest along an axis, in order, and where they are."""
    line = lined(g, x)
    axis = line.axis(dim)
    shape = (*line.shape[:axis], k, *line.shape[axis + 1 :])
    kinds = [x.dtype, "int64"]
    found = g.emit_several("TopK", [line, g.ints([k])], [shape, shape], kinds, axis=axis, largest=int(largest))
    return tuple(g.reshape(y, shape if x.rank else ()) for y in found)  # type: ignore[return-value]


@lowers("sort")
def sort(
    g: GraphBuilder, x: Value, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Value, Value]:
    """All along an axis in order; of equal ones the first comes first."""
    return top_k(g, x, x.shape[x.axis(dim)] if x.rank else 1, dim, descending)


def _nth(g: GraphBuilder, x: Value, place: int, dim: int, keep: bool) -> tuple[Value, Value]:
    """The element of a place in the order along an axis, and where it is."""
    line = lined(g, x)
    axis = line.axis(dim)
    shape = (*line.shape[:axis], *((1,) if keep else ()), *line.shape[axis + 1 :]) if x.rank else ()
    several = top_k(g, line, place + 1, dim, False)
    value, at = (g.slice(indices, axis, place, place + 1) for indices in several)
    return g.reshape(value, shape), g.reshape(at, shape)


@lowers("kthvalue")
def kth_value(g: GraphBuilder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The k-th smallest along an axis, and where it is."""
    return _nth(g, x, k - 1, dim, keepdim)


@lowers("nanmedian")
def nanmedian(g: GraphBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | tuple[Value, Value]:
    """The middle one of those that are numbers; what is none comes last in the order."""
    line = g.reshape(x, (int(np.prod(x.shape)),)) if dim is None or not x.rank else x
    axis = line.axis(dim or 0)
    values, places = sort(g, line, axis)
    numbers = g.cast(g.unary("Not", g.emit("IsNaN", [line], line.shape, "bool")), "int64")
    count = reduced(g, "ReduceSum", numbers, axis, True)
    middle = g.binary("Max", g.binary("Div", g.binary("Sub", count, 1), 2), 0)
    kept = values.shape[:axis] + ((1,) if keepdim and x.rank else ()) + values.shape[axis + 1 :]
    found = [g.reshape(gather(g, array, axis, middle), kept) for array in (values, places)]
    return found[0] if dim is None else (found[0], found[1])


@lowers("median")
def median(g: GraphBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | tuple[Value, Value]:
    """The middle one of all elements; or along an axis, with where it is. Of two it is the smaller."""
    if dim is None:
        flat = g.reshape(x, (int(np.prod(x.shape)),))
        return _nth(g, flat, (flat.shape[0] - 1) // 2, 0, False)[0]
    size = x.shape[x.axis(dim)] if x.rank else 1
    return _nth(g, x, (size - 1) // 2, dim, keepdim)


def _extreme(g: GraphBuilder, x: Value, dim: int | Operand | None, keep: bool, op: str) -> Value | tuple[Value, Value]:
    """Of all elements; or along an axis, with where it is, whose gradient goes to the first of equal ones."""
    if dim is None:
        return reduced(g, op, x, None, False)
    if not isinstance(dim, int):
        return g.binary(op.removeprefix("Reduce"), x, dim)
    value, place = top_k(g, x, 1, dim, op == "ReduceMax")
    shape = value.shape if keep or not x.rank else (*x.shape[: x.axis(dim)], *x.shape[x.axis(dim) + 1 :])
    return g.reshape(value, shape), g.reshape(place, shape)


@lowers("max")
def maximum_of(
    g: GraphBuilder, x: Value, dim: int | Operand | None = None, keepdim: bool = False
) -> Value | tuple[Value, Value]:
    """The largest of all elements, of two tensors, or along an axis."""
    return _extreme(g, x, dim, keepdim, "ReduceMax")


@lowers("min")
def minimum_of(
    g: GraphBuilder, x: Value, dim: int | Operand | None = None, keepdim: bool = False
) -> Value | tuple[Value, Value]:
    """The smallest of all elements, of two tensors, or along an axis."""
    return _extreme(g, x, dim, keepdim, "ReduceMin")


def _place(aten: str, op: str) -> None:
    """Register the place of an extremum, in the flattened tensor where no axis is given."""

    @lowers(aten)
    def place(g: GraphBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        shape: Sequence[int]
        if dim is None or not x.rank:
            shape = (1,) * x.rank if keepdim else ()
            x, dim = g.reshape(x, (int(np.prod(x.shape)),)), 0
        else:
            axis = x.axis(dim)
            shape = (*x.shape[:axis], *((1,) if keepdim else ()), *x.shape[axis + 1 :])
        axis = x.axis(dim)
        found = g.emit(op, [g.cast(x, "float32")], (*x.shape[:axis], *x.shape[axis + 1 :]), "int64", axis=axis,
                       keepdims=0)  # fmt: skip
        return g.reshape(found, shape)


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


def _extreme_so_far(aten: str, op: str, place: str, other: float) -> None:
    """Register the extremum of all elements so far along an axis, and where it is, of several the last."""

    @lowers(aten)
    def so_far_of(g: GraphBuilder, x: Value, dim: int) -> tuple[Value, Operand]:
        if not x.rank:
            return x, np.array(0)
        lines = so_far(g, x, dim, other)
        at = g.emit(place, [lines], x.shape, "int64", axis=x.rank, keepdims=0, select_last_index=1)
        return g.reduce(op, lines, [-1], False), at


_extreme_so_far("cummax", "ReduceMax", "ArgMax", -np.inf)
_extreme_so_far("cummin", "ReduceMin", "ArgMin", np.inf)


@lowers("searchsorted")
def searchsorted(g: GraphBuilder, edges: Value, x: Operand, *, right: bool = False, **rest: Any) -> Value:
    """Number of edges below each element, or not above it."""
    if rest.get("sorter") is not None or edges.rank != 1:
        raise g.refusal("its edges have a sorter, or several rows", "one row of sorted edges")
    return bucketize(g, x, edges, right=right or rest.get("side") == "right")


@lowers("bucketize")
def bucketize(g: GraphBuilder, x: Operand, edges: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """Number of edges below each element, or not above it."""
    shape = x.shape if isinstance(x, Value) else np.shape(x)
    column = g.reshape(g.cast(x, dtype_of(x)), (*shape, 1))
    below = g.binary("LessOrEqual" if right else "Less", edges, column, "bool")
    return reduced(g, "ReduceSum", g.cast(below, "int64"), -1, False)
