"""PyTorch's primitive operators, which some of its decompositions end in."""

from collections.abc import Sequence
from typing import Any

import torch

from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers
from deployer.torch.lowerings.elementwise.arithmetic import arithmetic, truncated
from deployer.torch.lowerings.elementwise.functions import erfc
from deployer.torch.lowerings.places.indexing import as_strided_scatter
from deployer.torch.lowerings.places.reductions import reduced, variance


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
