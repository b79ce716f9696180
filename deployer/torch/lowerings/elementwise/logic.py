"""Comparisons, logic, bits of integers, and selection by a bool."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers


@lowers("where")
def where(g: GraphBuilder, condition: Operand, a: Operand, b: Operand) -> Value:
    """a where the condition holds, else b."""
    return g.choose(condition, a, b)


@lowers("masked_fill")
def masked_fill(g: GraphBuilder, x: Value, mask: Operand, value: Operand) -> Value:
    """`value` where the mask is set, else x; a mask that is known at compile time needs no selection at run time."""
    if isinstance(mask, Value) or isinstance(value, Value) or x.dtype != "float32":
        return g.choose(mask, g.cast(value, x.dtype), x)
    number, filled = float(np.asarray(value).reshape(())), np.asarray(mask, bool)
    if math.isinf(number):
        return g.binary("Add", x, np.where(filled, number, 0.0))
    masked = g.binary("Mul", x, np.where(filled, 0.0, 1.0))
    return g.binary("Add", masked, np.where(filled, number, 0.0)) if number else masked


@lowers("masked_scatter")
def masked_scatter(g: GraphBuilder, x: Value, mask: Operand, source: Value) -> Value:
    """x with the elements of the source, one after another, where the mask is set."""
    shape = np.broadcast_shapes(x.shape, mask.shape if isinstance(mask, Value) else np.shape(mask))
    set_there = g.expand(g.cast(mask, "bool"), shape)
    count = math.prod(shape)
    number = g.emit("CumSum", [g.reshape(g.cast(set_there, "int64"), (count,)), g.constant(np.array(0), "int64")],
                    (count,), "int64")  # fmt: skip
    place = g.binary("Max", g.binary("Sub", number, 1), 0)
    flat = g.reshape(source, (math.prod(source.shape),))
    place = g.binary("Min", place, flat.shape[0] - 1)
    taken = g.emit("Gather", [flat, place], (count,), flat.dtype, axis=0)
    return g.choose(set_there, g.reshape(taken, shape), x)


def _compares(aten: str, op: str, negated: bool = False) -> None:
    """Register a comparison, whose result is of truths, negated if `negated`."""

    @lowers(aten)
    def comparison(g: GraphBuilder, a: Operand, b: Operand) -> Value:
        found = g.binary(op, a, b, "bool")
        return g.unary("Not", found) if negated else found


for _aten, _op in (("gt", "Greater"), ("lt", "Less"), ("ge", "GreaterOrEqual"), ("le", "LessOrEqual"), ("eq", "Equal")):
    _compares(_aten, _op)
_compares("ne", "Equal", negated=True)


def _truths(aten: str, op: str) -> None:
    """Register an operator of two truths; a number is true where it is not zero."""

    @lowers(aten)
    def logical(g: GraphBuilder, a: Operand, b: Operand) -> Value:
        return g.binary(op, g.cast(a, "bool"), g.cast(b, "bool"), "bool")


for _aten, _op in (("logical_and", "And"), ("logical_or", "Or"), ("logical_xor", "Xor")):
    _truths(_aten, _op)


@lowers("logical_not")
def logical_not(g: GraphBuilder, x: Value) -> Value:
    """Whether x is zero."""
    return g.unary("Not", g.cast(x, "bool"))


def _bits(op: str, *names: str) -> None:
    """Register an operator of bits, which of truths is that of truths."""

    @lowers(*names)
    def bitwise(g: GraphBuilder, a: Operand, b: Operand) -> Value:
        truths = {dtype_of(a), dtype_of(b)} == {"bool"}
        return g.binary(op if truths else f"Bitwise{op}", a, b)


_bits("And", "bitwise_and", "__and__")
_bits("Or", "bitwise_or", "__or__")
_bits("Xor", "bitwise_xor", "__xor__")


@lowers("bitwise_not")
def bitwise_not(g: GraphBuilder, x: Value) -> Value:
    """The other bits, or the other truth."""
    return g.unary("Not" if x.dtype == "bool" else "BitwiseNot", x)


@lowers("bitwise_left_shift", "__lshift__")
def left_shift(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a 2^b."""
    return g.binary("Mul", a, g.binary("Pow", 2, b))


@lowers("isnan")
def is_nan(g: GraphBuilder, x: Value) -> Value:
    """Whether x is no number."""
    return g.emit("IsNaN", [x], x.shape, "bool")


@lowers("isinf")
def is_inf(g: GraphBuilder, x: Value) -> Value:
    """Whether x is infinite."""
    return g.emit("IsInf", [x], x.shape, "bool")


@lowers("isfinite")
def is_finite(g: GraphBuilder, x: Value) -> Value:
    """Whether x is a number that is not infinite."""
    return g.unary("Not", g.binary("Or", is_nan(g, x), is_inf(g, x), "bool"))


@lowers("signbit")
def is_negative(g: GraphBuilder, x: Value) -> Value:
    """Whether x is below zero."""
    return g.binary("Less", x, 0, "bool")


def _whether(aten: str, op: str) -> None:
    """Register whether some, or all, of several are true."""

    @lowers(aten)
    def whether(
        g: GraphBuilder, x: Value, dim: int | Sequence[int] | None = None, keepdim: bool = False, **rest: Any
    ) -> Value:
        dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
        number = g.cast(g.cast(x, "bool"), "int64")
        return g.cast(g.reduce(op, number, dims, keepdim), "bool")


_whether("any", "ReduceMax")
_whether("all", "ReduceMin")


@lowers("masked_scatter_backward")
def masked_scatter_backward(g: GraphBuilder, dy: Value, mask: Operand, sizes: Sequence[int]) -> Value:
    """The arriving gradient where the mask is set, one after another."""
    count, size = math.prod(dy.shape), math.prod(sizes)
    truths = g.reshape(g.expand(g.cast(mask, "bool"), dy.shape), (count,))
    number = g.emit("CumSum", [g.cast(truths, "int64"), g.constant(np.array(0), "int64")], (count,), "int64")
    place = g.binary("Min", g.binary("Max", g.binary("Sub", number, 1), 0), size - 1)
    there = g.choose(truths, g.reshape(dy, (count,)), 0.0)
    return g.reshape(g.emit("GatherGrad", [g.ints((size,)), place, there], (size,), axis=0), sizes)
