"""Single elements by their places along an axis: what is taken, what is put, and what comes first in an order."""

from dataclasses import replace

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers


@lowers("gather")
def gather(g: GraphBuilder, x: Value, dim: int, ids: Operand, sparse_grad: bool = False) -> Value:
    """For each number an element from the row of that number."""
    numbers = g.value(ids, "int64")
    return g.emit("GatherElements", [x, numbers], numbers.shape, x.dtype, axis=x.axis(dim))


def _scatter(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand, reduction: str | None) -> Value:
    numbers = g.value(ids, "int64")
    updates = source if isinstance(source, Value) else np.broadcast_to(np.asarray(source, np.float32), numbers.shape)
    new = g.value(updates)
    if any(b > a for a, b in zip(new.shape, numbers.shape, strict=True)) or new.rank != numbers.rank:
        raise g.refusal(f"a source of {new.shape} for indices of {numbers.shape}", "a source as large as the indices")
    for axis, size in enumerate(numbers.shape):
        new = g.slice(new, axis, 0, size)
    return g.emit("ScatterElements", [x, numbers, new], x.shape, x.dtype, axis=x.axis(dim), reduction=reduction)


@lowers("scatter")
def scatter(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Operand, *, reduce: str | None = None) -> Value:
    """x with other elements at those rows, added or multiplied to what is there where `reduce` says so."""
    return _scatter(g, x, dim, ids, source, {"add": "add", "multiply": "mul"}[reduce] if reduce else None)


@lowers("scatter_add")
def scatter_add(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Value) -> Value:
    """x with terms added at those rows."""
    return _scatter(g, x, dim, ids, source, "add")


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
    axis = x.axis(dim)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values, places = g.emit_several("TopK", [x, g.ints([k])], [shape, shape], x.dtype, axis=axis, largest=int(largest))
    return values, replace(places, dtype="int64")


@lowers("sort")
def sort(g: GraphBuilder, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """All along an axis in order; of equal ones the first comes first."""
    return top_k(g, x, x.shape[x.axis(dim)], dim, descending)


def _extreme(g: GraphBuilder, x: Value, dim: int | Operand | None, keep: bool, op: str) -> Value | tuple[Value, Value]:
    """Of all elements; or along an axis, with where it is, whose gradient goes to the first of equal ones."""
    if dim is None:
        return g.reduce(op, x, [], False)
    if not isinstance(dim, int):
        return g.binary(op.removeprefix("Reduce"), x, dim)
    value, place = top_k(g, x, 1, dim, op == "ReduceMax")
    shape = value.shape if keep else (*x.shape[: x.axis(dim)], *x.shape[x.axis(dim) + 1 :])
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
        if dim is None:
            x, dim = g.reshape(x, (int(np.prod(x.shape)),)), 0
        axis = x.axis(dim)
        shape = (*x.shape[:axis], *((1,) if keepdim else ()), *x.shape[axis + 1 :])
        return g.emit(op, [x], shape, "int64", axis=axis, keepdims=int(keepdim))


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


@lowers("cumsum")
def cumulative_sum(g: GraphBuilder, x: Value, dim: int, dtype: object = None) -> Value:
    """The sums of all elements so far along an axis."""
    return g.emit("CumSum", [x, g.constant(np.array(x.axis(dim)), "int64")], x.shape, x.dtype)
