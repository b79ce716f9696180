"""Elementwise functions of one tensor."""

import math
from collections.abc import Callable
from typing import Any

from deployer.torch.graph import GraphBuilder, Value, lowers


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
    turned = g.binary("Mul", g.choose(zero, 1.0, x), math.pi)
    return g.choose(zero, 1.0, g.binary("Div", g.unary("Sin", turned), turned))


@lowers("angle")
def angle_of(g: GraphBuilder, x: Value) -> Value:
    """Half a turn for what is negative."""
    return g.choose(g.binary("Less", x, 0.0, "bool"), math.pi, 0.0)


@lowers("erfc")
def erfc(g: GraphBuilder, x: Value) -> Value:
    """1 - erf(x)."""
    return g.binary("Sub", 1.0, g.unary("Erf", g.cast(x, "float32")))
