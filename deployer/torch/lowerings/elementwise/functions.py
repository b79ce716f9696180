"""Lowerings of functions of single elements, constants, primitives and random numbers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deployer.core.operator import Array
from deployer.operators.elementwise.random import KeyedDropout
from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers
from deployer.torch.lowerings.elementwise.arithmetic import arithmetic, truncated
from deployer.torch.lowerings.places.indexing import as_strided_scatter
from deployer.torch.lowerings.places.reductions import reduced, variance

# Elementwise functions of one tensor.


def same(aten: str, op: str, **attrs: Any) -> None:
    """Register an elementwise function of floats that ONNX has as well."""

    @lowers(aten)
    def unary(g: GraphBuilder, x: Value) -> Value:
        return g.unary(op, g.cast(x, "float32"), **attrs)


for _aten, _op in (
    ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("reciprocal", "Reciprocal"), ("erf", "Erf"), ("sin", "Sin"),
    ("cos", "Cos"), ("tan", "Tan"), ("asin", "Asin"), ("acos", "Acos"), ("atan", "Atan"), ("sinh", "Sinh"),
    ("cosh", "Cosh"), ("asinh", "Asinh"), ("acosh", "Acosh"), ("atanh", "Atanh"), ("expm1", "Expm1"),
    ("log1p", "Log1p"),
):  # fmt: skip
    same(_aten, _op)


def _of_integers(aten: str, op: str, of_integers: Callable[[GraphBuilder, Value], Value]) -> None:
    """Register an elementwise function of floats, and what it is for integers."""

    @lowers(*aten.split())
    def unary(g: GraphBuilder, x: Value) -> Value:
        return g.unary(op, x) if x.dtype == "float32" else of_integers(g, g.cast(x, "int64"))


def _sign(g: GraphBuilder, x: Value) -> Value:
    return g.binary("Max", g.binary("Min", x, 1), -1)


_of_integers("neg negative", "Neg", lambda g, x: g.binary("Sub", 0, x))
_of_integers("abs absolute", "Abs", lambda g, x: g.binary("Max", x, g.binary("Sub", 0, x)))
_of_integers("sign sgn", "Sign", _sign)
_of_integers("floor", "Floor", lambda g, x: x)
_of_integers("ceil", "Ceil", lambda g, x: x)
_of_integers("relu", "Relu", lambda g, x: g.binary("Max", x, 0))


@lowers("rsqrt")
def rsqrt(g: GraphBuilder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return g.unary("Reciprocal", g.unary("Sqrt", g.cast(x, "float32")))


def _scaled(aten: str, op: str, before: float = 1.0, behind: float = 1.0) -> None:
    """Register a function that is another one of x times a number, times a number."""

    @lowers(aten)
    def unary(g: GraphBuilder, x: Value) -> Value:
        x = g.cast(x, "float32")
        y = g.unary(op, x if before == 1 else g.binary("Mul", x, before))
        return y if behind == 1 else g.binary("Mul", y, behind)


_scaled("exp2", "Exp", before=math.log(2))
_scaled("log2", "Log", behind=1 / math.log(2))
_scaled("log10", "Log", behind=1 / math.log(10))


@lowers("deg2rad")
def radians(g: GraphBuilder, x: Value) -> Value:
    """Degrees in radians."""
    return g.binary("Mul", x, math.pi / 180)


@lowers("rad2deg")
def degrees(g: GraphBuilder, x: Value) -> Value:
    """Radians in degrees."""
    return g.binary("Mul", x, 180 / math.pi)


@lowers("sinc")
def sinc(g: GraphBuilder, x: Value) -> Value:
    """sin(pi x) / (pi x), and 1 at zero."""
    zero = g.binary("Equal", x, 0.0, "bool")
    angle = g.binary("Mul", g.choose(zero, 1.0, x), math.pi)
    return g.choose(zero, 1.0, g.binary("Div", g.unary("Sin", angle), angle))


@lowers("angle")
def angle_of(g: GraphBuilder, x: Value) -> Value:
    """Half a turn for what is negative."""
    return g.choose(g.binary("Less", x, 0.0, "bool"), math.pi, 0.0)


@lowers("erfc")
def erfc(g: GraphBuilder, x: Value) -> Value:
    """1 - erf(x)."""
    return g.binary("Sub", 1.0, g.unary("Erf", g.cast(x, "float32")))


# Constant-filled tensors, which read only the shape of another tensor.


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


# PyTorch's primitive operators, which some of its decompositions end in.


def _reduces(name: str, op: str) -> None:
    """Register a reduction over axes, which go."""

    @lowers(f"prims::{name}")
    def reduction(g: GraphBuilder, x: Value, dims: Sequence[int] | None, **options: Any) -> Value:
        return reduced(g, op, x, list(dims or ()), False)


for _name, _op in (("sum", "ReduceSum"), ("prod", "ReduceProd"), ("amax", "ReduceMax"), ("amin", "ReduceMin")):
    _reduces(_name, _op)


@lowers("prims::var")
def prims_var(g: GraphBuilder, x: Value, dims: Sequence[int] | None, correction: float = 1, **options: Any) -> Value:
    """The variance over axes."""
    return variance(g, x, list(dims or ()), correction=correction)


@lowers("var_mean")
def var_mean(
    g: GraphBuilder,
    x: Value,
    dim: int | Sequence[int] | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> tuple[Value, Value]:
    """The variance and the mean."""
    axes = None if isinstance(dim, bool) else dim
    return variance(g, x, dim, unbiased, keepdim, correction), reduced(g, "ReduceMean", x, axes, keepdim)


@lowers("prims::div")
def prims_div(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a / b, of integers towards zero."""
    quotient = arithmetic(g, "Div", a, b)
    return truncated(g, quotient) if dtype_of(quotient) != "float32" else quotient


@lowers("prims::broadcast_in_dim")
def broadcast_in_dim(g: GraphBuilder, x: Value, shape: Sequence[int], places: Sequence[int]) -> Value:
    """The axes of x at places of a larger shape, and repeated along the others."""
    sizes = [1] * len(shape)
    for axis, place in enumerate(places):
        sizes[place] = x.shape[axis]
    return g.expand(g.reshape(x, sizes), shape)


@lowers("prims::convert_element_type")
def convert_element_type(g: GraphBuilder, x: Value, dtype: torch.dtype) -> Value:
    """x in another dtype."""
    return g.cast(x, "float32" if dtype.is_floating_point else "bool" if dtype is torch.bool else "int64")


@lowers("prims::as_strided_scatter")
def prims_as_strided_scatter(
    g: GraphBuilder, x: Value, source: Value, size: Sequence[int], stride: Sequence[int], offset: int
) -> Value:
    """x with others at strides in memory."""
    return as_strided_scatter(g, x, source, size, stride, offset)


@lowers("prims::erfc")
def prims_erfc(g: GraphBuilder, x: Value) -> Value:
    """1 - erf(x)."""
    return erfc(g, x)


@lowers("prims::exp2")
def prims_exp2(g: GraphBuilder, x: Value) -> Value:
    """2 ** x."""
    return g.binary("Pow", 2.0, x)


@lowers("prims::hypot")
def prims_hypot(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The length of the point (a, b)."""
    total = g.binary("Add", arithmetic(g, "Mul", a, a), arithmetic(g, "Mul", b, b))
    return g.unary("Sqrt", total)


# Operators that draw random numbers, each by a stream of its own.


@lowers("deployer::dropout")
def dropout(g: GraphBuilder, x: Operand, share: float, stream: int) -> Value:
    """x without a share of its elements, the others scaled; its gradient is the same of what arrives."""
    value = g.value(x)
    return g.emit(KeyedDropout.name, [value], value.shape, ratio=share, seed=g.seed, stream=stream)


@lowers("deployer::keep")
def keep(g: GraphBuilder, size: Sequence[int], share: float, stream: int) -> Value:
    """1 with a probability of `share`, else 0."""
    return g.unary("Sign", dropout(g, np.ones(tuple(size)), 1 - share, stream))


@lowers("deployer::uniform")
def uniform(g: GraphBuilder, size: Sequence[int], stream: int) -> Value:
    """Numbers from 0 to below 1."""
    return g.emit("KeyedUniform", [g.ints(size)], tuple(size), seed=g.seed, stream=stream)
