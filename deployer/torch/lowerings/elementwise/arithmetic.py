"""Sums, products, powers, quotients and other arithmetic, with PyTorch's broadcasting, which is ONNX's."""

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers

TRUTHS = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
"""Logical operator that stands for an arithmetic operator on two booleans."""


def arithmetic(g: GraphBuilder, op: str, a: Operand, b: Operand) -> Value:
    """An elementwise operator; that of two truths is a truth where it has a meaning, and else one of integers."""
    if {dtype_of(a), dtype_of(b)} != {"bool"}:
        return g.binary(op, a, b)
    if op in TRUTHS:
        return g.binary(TRUTHS[op], a, b, "bool")
    return g.binary(op, g.cast(a, "int64"), g.cast(b, "int64"))


def scaled(g: GraphBuilder, x: Operand, factor: float) -> Operand:
    """The operand times a number."""
    if factor == 1:
        return x
    return arithmetic(g, "Mul", x, factor) if isinstance(x, Value) else np.asarray(x) * factor


@lowers("add")
def add(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """a + alpha b."""
    return arithmetic(g, "Add", a, scaled(g, b, alpha))


@lowers("sub", "subtract")
def sub(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """a - alpha b."""
    return arithmetic(g, "Sub", a, scaled(g, b, alpha))


@lowers("rsub")
def rsub(g: GraphBuilder, a: Operand, b: Operand, alpha: float = 1) -> Value:
    """b - alpha a."""
    return arithmetic(g, "Sub", b, scaled(g, a, alpha))


@lowers("mul", "multiply")
def mul(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a b."""
    return arithmetic(g, "Mul", a, b)


@lowers("div", "true_divide", "divide")
def div(g: GraphBuilder, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    """a / b, or the integer below it, or the one towards zero."""
    if rounding_mode is None:
        return g.binary("Div", g.cast(a, "float32"), g.cast(b, "float32"))
    if rounding_mode == "floor":
        return floor_divide(g, a, b)
    quotient = arithmetic(g, "Div", a, b)
    return truncated(g, quotient)


@lowers("floor_divide")
def floor_divide(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The integer below a / b: what a is without the remainder, over b, which is an integer but for rounding."""
    quotient = arithmetic(g, "Div", arithmetic(g, "Sub", a, remainder(g, a, b)), b)
    return g.unary("Round", quotient) if quotient.dtype == "float32" else quotient


@lowers("remainder")
def remainder(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """Remainder of a / b, with the sign of b."""
    return _left(g, a, b, 0)


@lowers("fmod")
def fmod(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """Remainder of a / b, with the sign of a."""
    return _left(g, a, b, 1)


def _left(g: GraphBuilder, a: Operand, b: Operand, fmod: int) -> Value:
    x, y = g.aligned(a, b)
    if x.dtype == "float32" and not fmod and not g.saves:  # which ONNX's Mod of opset 21 does not have
        rest = _left(g, x, y, 1)
        apart = g.binary("Less", g.binary("Mul", g.unary("Sign", rest), g.unary("Sign", y)), 0.0, "bool")
        return g.choose(apart, g.binary("Add", rest, y), rest)
    return g.emit("Mod", [x, y], np.broadcast_shapes(x.shape, y.shape), x.dtype, fmod=fmod)


@lowers("pow")
def power(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """a ** b; squares are products."""
    known = None if isinstance(b, Value) else np.asarray(b)
    number = None if known is None or known.size > 1 else float(known.reshape(()))
    if known is not None and number is not None and isinstance(a, Value) and known.ndim <= a.rank:
        if number == 2:
            return square(g, a)
        if number == 1 and dtype_of(b) in ("int64", dtype_of(a)):
            return a
        if number == 0.5:
            return g.unary("Sqrt", g.cast(a, "float32"))
        if number == -1 and a.dtype == "float32":
            return g.unary("Reciprocal", a)
    return arithmetic(g, "Pow", a, b)


@lowers("square")
def square(g: GraphBuilder, x: Value) -> Value:
    """x x."""
    return arithmetic(g, "Mul", x, x)


@lowers("maximum", "fmax")
def maximum(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The greater of a and b."""
    return arithmetic(g, "Max", a, b)


@lowers("minimum", "fmin")
def minimum(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The lesser of a and b."""
    return arithmetic(g, "Min", a, b)


@lowers("clamp", "clip")
def clamp(g: GraphBuilder, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    """x between bounds, each of which may be absent."""
    numbers = all(b is None or (not isinstance(b, Value) and np.size(b) == 1 and np.ndim(b) <= x.rank)
                  for b in (low, high))  # fmt: skip
    if numbers and x.dtype == "float32":
        bounds = [None if b is None else g.constant(np.asarray(b).reshape(())) for b in (low, high)]
        return g.emit("Clip", [x, *bounds], x.shape)
    x = x if low is None else arithmetic(g, "Max", x, low)
    return x if high is None else arithmetic(g, "Min", x, high)


@lowers("hardtanh")
def hardtanh(g: GraphBuilder, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    """x between bounds."""
    return clamp(g, x, low, high)


@lowers("clamp_min")
def clamp_min(g: GraphBuilder, x: Value, low: Operand) -> Value:
    """x, at least `low`."""
    return clamp(g, x, low)


@lowers("clamp_max")
def clamp_max(g: GraphBuilder, x: Value, high: Operand) -> Value:
    """x, at most `high`."""
    return clamp(g, x, None, high)


@lowers("trunc", "fix")
def truncated(g: GraphBuilder, x: Value) -> Value:
    """The integer towards zero."""
    if x.dtype != "float32":
        return x
    return g.binary("Mul", g.unary("Sign", x), g.unary("Floor", g.unary("Abs", x)))


@lowers("frac")
def fraction(g: GraphBuilder, x: Value) -> Value:
    """Fractional part of x, with the sign of x."""
    return g.binary("Sub", x, truncated(g, x))


@lowers("round")
def rounded(g: GraphBuilder, x: Value, decimals: int = 0) -> Value:
    """The nearest integer, or number of so many decimals; of two the even one."""
    if x.dtype != "float32":
        return x
    if not decimals:
        return g.unary("Round", x)
    factor, op, back = 10.0 ** abs(decimals), *(("Mul", "Div") if decimals > 0 else ("Div", "Mul"))
    return g.binary(back, g.unary("Round", g.binary(op, x, factor)), factor)


@lowers("atan2", "arctan2")
def angle(g: GraphBuilder, y: Operand, x: Operand) -> Value:
    """The angle of the point (x, y): of its slope, and half a turn away on the left."""
    y, x = g.aligned(g.cast(y, "float32"), g.cast(x, "float32"))
    zero = g.binary("Equal", x, 0.0, "bool")
    slope = g.binary("Div", y, g.choose(zero, 1.0, x))
    upright = g.binary("Mul", g.unary("Sign", y), np.pi / 2)
    side = g.choose(g.binary("Less", y, 0.0, "bool"), -np.pi, np.pi)
    offset = g.choose(g.binary("Less", x, 0.0, "bool"), side, 0.0)
    return g.choose(zero, upright, g.binary("Add", g.unary("Atan", slope), offset))


@lowers("hypot")
def hypotenuse(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The length of the point (a, b)."""
    x, y = g.aligned(a, b)
    return g.unary("Sqrt", g.binary("Add", square(g, x), square(g, y)))


@lowers("copysign")
def copysign(g: GraphBuilder, a: Operand, b: Operand) -> Value:
    """The magnitude of a with the sign of b; zeros are positive."""
    x, y = g.aligned(g.cast(a, "float32"), g.cast(b, "float32"))
    magnitude = g.unary("Abs", x)
    return g.choose(g.binary("Less", y, 0.0, "bool"), g.unary("Neg", magnitude), magnitude)


@lowers("addcmul")
def addcmul(g: GraphBuilder, x: Value, a: Operand, b: Operand, value: float = 1) -> Value:
    """x + value a b."""
    return arithmetic(g, "Add", x, scaled(g, arithmetic(g, "Mul", a, b), value))


@lowers("addcdiv")
def addcdiv(g: GraphBuilder, x: Value, a: Operand, b: Operand, value: float = 1) -> Value:
    """x + value a / b."""
    return arithmetic(g, "Add", x, scaled(g, div(g, a, b), value))
