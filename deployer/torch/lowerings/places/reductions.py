"""Sums, means and extremes over axes."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from deployer.torch.graph import GraphBuilder, Value, lowers


def _dims(dim: int | Sequence[int] | None) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else list(dim)


def reduced(g: GraphBuilder, op: str, x: Value, dim: int | Sequence[int] | None, keep: bool) -> Value:
    """A reduction; integers are added and multiplied as floats, exactly up to 2^24."""
    if x.dtype == "float32":
        return g.reduce(op, x, _dims(dim), keep)
    if op in ("ReduceMax", "ReduceMin"):
        return g.cast(g.reduce(op, g.cast(x, "int64"), _dims(dim), keep), x.dtype)
    found = g.reduce(op, g.cast(x, "float32"), _dims(dim), keep)
    return found if op in ("ReduceMean", "ReduceLogSumExp") else g.cast(found, "int64")


def _reduced(op: str, *names: str) -> None:
    @lowers(*names)
    def reduction(
        g: GraphBuilder,
        x: Value,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Value:
        return reduced(g, op, x if dtype is None or not dtype.is_floating_point else g.cast(x, "float32"), dim, keepdim)


for _op, _name in (("ReduceMean", "mean"), ("ReduceSum", "sum"), ("ReduceMax", "amax"), ("ReduceMin", "amin"),
                   ("ReduceLogSumExp", "logsumexp"), ("ReduceProd", "prod")):  # fmt: skip
    _reduced(_op, _name)


@lowers("var")
def variance(
    g: GraphBuilder,
    x: Value,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    """The mean square of what is left without the mean, times n / (n - correction)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = [x.axis(a) for a in _dims(dim)] or list(range(x.rank))
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    count = math.prod(x.shape[a] for a in dims)
    centred = g.binary("Sub", x, g.reduce("ReduceMean", x, dims, True))
    mean = g.reduce("ReduceMean", g.binary("Mul", centred, centred), dims, keepdim)
    return mean if not less else g.binary("Mul", mean, count / (count - less))


@lowers("std")
def deviation(
    g: GraphBuilder,
    x: Value,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    """The root of the variance."""
    return g.unary("Sqrt", variance(g, x, dim, unbiased, keepdim, correction))


@lowers("linalg_vector_norm")
def norm(
    g: GraphBuilder,
    x: Value,
    order: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Value:
    """The sum of magnitudes to a power, to that power's inverse; the largest, the smallest, or how many are not 0."""
    dims = _dims(dim)
    if order in (1, 2):
        return g.reduce(f"ReduceL{int(order)}", x, dims, keepdim)
    magnitudes = g.unary("Abs", x)
    if math.isinf(order):
        return g.reduce("ReduceMax" if order > 0 else "ReduceMin", magnitudes, dims, keepdim)
    if order == 0:
        zero = g.binary("Equal", x, 0.0, "bool")
        return g.reduce("ReduceSum", g.cast(g.unary("Not", zero), "float32"), dims, keepdim)
    total = g.reduce("ReduceSum", g.binary("Pow", magnitudes, float(order)), dims, keepdim)
    return g.binary("Pow", total, 1 / order)


@lowers("cumprod")
def cumulative_product(g: GraphBuilder, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """The products of all elements so far along an axis, for each of all up to it."""
    if not x.rank:
        return x
    return reduced(g, "ReduceProd", so_far(g, x, dim, 1), -1, False)


@lowers("cumsum")
def cumulative_sum(g: GraphBuilder, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """The sums of all elements so far along an axis."""
    return cumulative(g, "CumSum", x if dtype is None or not dtype.is_floating_point else g.cast(x, "float32"), dim)


def cumulative(g: GraphBuilder, op: str, x: Value, dim: int) -> Value:
    """Cumulative sum along an axis."""
    if not x.rank:
        return x
    x = g.cast(x, "int64") if x.dtype == "bool" else x
    return g.emit(op, [x, g.constant(np.array(x.axis(dim)), "int64")], x.shape, x.dtype)


@lowers("logcumsumexp")
def logcumsumexp(g: GraphBuilder, x: Value, dim: int) -> Value:
    """The logarithms of the sums of powers of all elements so far along an axis."""
    if not x.rank:
        return x
    return g.reduce("ReduceLogSumExp", so_far(g, x, dim, -np.inf), [-1], False)


def so_far(g: GraphBuilder, x: Value, dim: int, other: float) -> Value:
    """For each element, along a new last axis, all elements up to it along an axis, and a number for those behind."""
    axis = x.axis(dim)
    size = x.shape[axis]
    order = [a for a in range(x.rank) if a != axis]
    last = g.transpose(x, [*order, axis])
    rows = g.reshape(last, (*last.shape[:-1], 1, size))
    shape = (*last.shape[:-1], size, size)
    chosen = g.choose(np.tri(size, dtype=bool), g.expand(rows, shape), other)
    back = [*range(axis), x.rank - 1, *range(axis, x.rank - 1), x.rank]
    return g.transpose(chosen, back)
