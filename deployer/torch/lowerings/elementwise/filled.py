"""Constant-filled tensors, which read only the shape of another tensor."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers


def filled(shape: Sequence[int], number: float, dtype: Any, like: str) -> Array:
    """An array of one number in the dtype that is asked for, or else in another one's."""
    name = like if dtype is None else str(dtype).removeprefix("torch.")
    kind = np.float64 if "float" in name else np.bool_ if name == "bool" else np.int64
    return np.full(tuple(shape), number, kind)


def _shape(x: Operand) -> tuple[int, ...]:
    return x.shape if isinstance(x, Value) else np.shape(x)


@lowers("full_like")
def full_like(g: GraphBuilder, x: Operand, number: Operand, dtype: Any = None) -> Operand:
    """One number everywhere, in the shape of x."""
    if isinstance(number, Value):
        return g.expand(number, _shape(x))
    return filled(_shape(x), float(np.asarray(number)), dtype, dtype_of(x))


@lowers("zeros_like", "empty_like")
def zeros_like(g: GraphBuilder, x: Operand, dtype: Any = None) -> Array:
    """Zeros in the shape of x; what is empty is written before it is read."""
    return filled(_shape(x), 0, dtype, dtype_of(x))


@lowers("ones_like")
def ones_like(g: GraphBuilder, x: Operand, dtype: Any = None) -> Array:
    """Ones in the shape of x."""
    return filled(_shape(x), 1, dtype, dtype_of(x))


@lowers("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(g: GraphBuilder, x: Operand, shape: Sequence[int], *strides: Any, dtype: Any = None) -> Array:
    """Zeros in the dtype of x."""
    return filled(shape, 0, dtype, dtype_of(x))


@lowers("new_ones")
def new_ones(g: GraphBuilder, x: Operand, shape: Sequence[int], dtype: Any = None) -> Array:
    """Ones in the dtype of x."""
    return filled(shape, 1, dtype, dtype_of(x))


@lowers("new_full")
def new_full(g: GraphBuilder, x: Operand, shape: Sequence[int], number: Operand, dtype: Any = None) -> Operand:
    """One number everywhere, in the dtype of x."""
    if isinstance(number, Value):
        return g.expand(number, shape)
    return filled(shape, float(np.asarray(number)), dtype, dtype_of(x))


@lowers("full")
def full(g: GraphBuilder, shape: Sequence[int], number: Operand, dtype: Any = None) -> Operand:
    """One number everywhere."""
    if isinstance(number, Value):
        return g.expand(number, shape)
    return filled(shape, float(np.asarray(number)), dtype, dtype_of(number))


@lowers("fill")
def fill(g: GraphBuilder, x: Operand, number: Operand) -> Operand:
    """One number everywhere, in the shape and dtype of x."""
    return full_like(g, x, number)
