"""Sums, products, powers and other arithmetic, with PyTorch's broadcasting, which is ONNX's."""

import math
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers


def scaled(g: GraphBuilder, x: Operand, factor: float) -> Operand:
    """The operand times a number."""
    if factor == 1:
        return x
    return g.binary("Mul", x, factor) if isinstance(x, Value) else np.asarray(x) * factor


@lowers("add")
def add(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """a + alpha b."""
    return g.binary("Add", a, scaled(g, b, alpha))


@lowers("sub")
def sub(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """a - alpha b."""
    return g.binary("Sub", a, scaled(g, b, alpha))


@lowers("rsub")
def rsub(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """b - alpha a."""
    return g.binary("Sub", b, scaled(g, a, alpha))


@lowers("mul", "multiply")
def mul(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a b."""
    return g.binary("Mul", a, b)


@lowers("div", "true_divide")
def div(g: GraphBuilder, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    """a / b."""
    if rounding_mode is not None:
        raise g.refusal(f"rounding_mode is {rounding_mode!r}", "a division without rounding")
    return g.binary("Div", a, b)


@lowers("pow")
def power(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a ** b; squares are products."""
    if isinstance(b, int | float) and b == 2:
        return square(g, g.value(a))
    if isinstance(b, int | float) and b == 0.5:
        return g.unary("Sqrt", g.value(a))
    return g.binary("Pow", a, b)


@lowers("square")
def square(g: GraphBuilder, x: Value) -> Value:
    """x x."""
    return g.binary("Mul", x, x)


@lowers("maximum")
def maximum(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The greater of a and b."""
    return g.binary("Max", a, b)


@lowers("minimum")
def minimum(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The lesser of a and b."""
    return g.binary("Min", a, b)


@lowers("rsqrt")
def rsqrt(g: GraphBuilder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return g.unary("Reciprocal", g.unary("Sqrt", x))


@lowers("clamp", "clip", "hardtanh")
def clamp(g: GraphBuilder, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """x between bounds, each of which may be absent; those of hardtanh are always given."""
    if g.operator.endswith("hardtanh"):
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    bounds = [None if b is None else g.constant(b) for b in (low, high)]
    return g.emit("Clip", [x, *bounds], x.shape)


@lowers("clamp_min")
def clamp_min(g: GraphBuilder, x: Value, low: float) -> Value:
    """x, at least `low`."""
    return clamp(g, x, low)


@lowers("clamp_max")
def clamp_max(g: GraphBuilder, x: Value, high: float) -> Value:
    """x, at most `high`."""
    return clamp(g, x, None, high)


@lowers("masked_fill")
def masked_fill(g: GraphBuilder, x: Value, mask: Operand, value: Operand) -> Value:
    """`value` where the mask is set, else x; a mask that is known at compile time needs no selection at run time."""
    if isinstance(mask, Value) or isinstance(value, Value):
        return where(g, mask, value, x)
    number, kept = float(np.asarray(value)), 1.0 - np.asarray(mask, np.float32)
    if math.isinf(number):
        return g.binary("Add", x, np.where(np.asarray(mask, bool), np.float32(number), np.float32(0)))
    masked = g.binary("Mul", x, kept)
    return g.binary("Add", masked, (1.0 - kept) * number) if number else masked


@lowers("where")
def where(g: GraphBuilder, condition: Operand, a: Operand, b: Operand) -> Value:
    """a where the condition holds, else b."""
    c, x, y = g.value(condition, "bool"), g.value(a), g.value(b)
    return g.emit("Where", [c, x, y], np.broadcast_shapes(c.shape, x.shape, y.shape))


def compares(aten: str, op: str) -> None:
    """Register a comparison, whose result is of booleans."""

    @lowers(aten)
    def comparison(g: GraphBuilder, a: Operand, b: Operand) -> Value:
        x, y = g.value(a), g.value(b)
        return g.emit(op, [x, y], np.broadcast_shapes(x.shape, y.shape), "bool")


for _aten, _op in (("gt", "Greater"), ("lt", "Less"), ("ge", "GreaterOrEqual"), ("le", "LessOrEqual"), ("eq", "Equal")):
    compares(_aten, _op)


def same(aten: str, op: str, **attrs: Any) -> None:
    """Register an elementwise operator of one tensor that ONNX has as well."""

    @lowers(aten)
    def unary(g: GraphBuilder, x: Value) -> Value:
        return g.unary(op, x, **attrs)


for _aten, _op in (
    ("neg", "Neg"), ("abs", "Abs"), ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("reciprocal", "Reciprocal"),
    ("erf", "Erf"), ("sign", "Sign"), ("floor", "Floor"), ("ceil", "Ceil"), ("round", "Round"), ("sin", "Sin"),
    ("cos", "Cos"), ("tan", "Tan"), ("asin", "Asin"), ("acos", "Acos"), ("atan", "Atan"), ("sinh", "Sinh"),
    ("cosh", "Cosh"), ("asinh", "Asinh"), ("acosh", "Acosh"), ("atanh", "Atanh"),
):  # fmt: skip
    same(_aten, _op)
