"""The functions of expressions: a row has kinds, meaning and C, and for formulas the derivative and the work.

The C of formulas is of the language, of `quotient_f32.h`, of `whole_f32.h`, which rounds nothing, or of `math_f32.h`
and `trig_f32.h`: every target gives the same bits. Integers wrap; where C leaves them undefined they have functions of
`integer_i32.h`. Words have C's operators and functions of the HAL; those without C belong to conditions alone.
"""

import math
import operator
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.expressions.derivative import (
    HALF,
    ONE,
    chain,
    chain_by,
    circle,
    minus,
    negative,
    of_extreme,
    of_product,
    of_quotient,
    of_remainder,
    of_sign,
    over,
    plus,
    root,
    select,
)
from deployer.expressions.tree import FUNCTIONS, Function, Kind, Number, Thunk, call

MATH, TRIG, WHOLE, INTEGER = "math_f32.h", "trig_f32.h", "whole_f32.h", "integer_i32.h"
QUOTIENT = "quotient_f32.h"
APPROXIMATIONS = frozenset({MATH, TRIG})
"""Headers whose functions are within units of the last place."""
DENSITY = Number(2 / math.sqrt(math.pi))


def is_exact(function: Function) -> bool:
    """Whether float32 has exactly one result of the function: IEEE 754 defines it, or it is one of the operands."""
    return not (function.rounds or function.header in APPROXIMATIONS)


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), np.asarray(x).dtype)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _quotient(a: Array, b: Array) -> Array:
    """Towards zero, and 0 where b is."""
    wide = np.where(b == 0, 0, np.abs(a.astype(np.int64)) // np.maximum(np.abs(b.astype(np.int64)), 1))
    return np.asarray(np.where((a < 0) != (b < 0), -wide, wide).astype(np.result_type(a, b)))


def _power(a: Array, b: Array) -> Array:
    """Towards zero, and 0 of 0 where b is below zero: of others only 1 and -1 leave anything then."""
    sign = np.where(b % 2 == 0, 1, a)
    below = np.where(np.abs(a.astype(np.int64)) == 1, sign, 0)
    return np.asarray(np.where(b < 0, below, np.power(a, np.maximum(b, 0))), np.result_type(a, b))


def _integer(x: Array) -> Array:
    """Towards zero, within int32, and 0 of NaN."""
    limits = np.iinfo(np.int32)
    return np.asarray(np.trunc(np.clip(np.nan_to_num(x, nan=0.0).astype(np.float64), limits.min, limits.max)), np.int32)


def _left(a: Array, b: Array) -> Array:
    """0 where b is below zero, or not below the bits of a."""
    bits = 8 * a.dtype.itemsize
    return np.asarray(np.where((b < 0) | (b >= bits), 0, np.left_shift(a, np.clip(b, 0, bits - 1))), a.dtype)


def _right(a: Array, b: Array) -> Array:
    """The sign alone where b is below zero, or not below the bits of a."""
    top = 8 * a.dtype.itemsize - 1
    return np.asarray(np.right_shift(a, np.where((b < 0) | (b > top), top, b)), a.dtype)


def _window(index: int, before: int, extent: int) -> int:
    """An index minus the `before` indices that lie before an axis, clipped to 0..extent."""
    return min(max(index - before, 0), extent)


def _reach(index: int, reach: int, stride: int, extent: int) -> int:
    """The first window that contains an index: (index - reach) / stride, rounded up and clipped to 0..extent."""
    return min(max(-(-(index - reach) // stride), 0), extent)


def _all(*terms: Thunk) -> Thunk:
    def holds(values: Any) -> bool:
        for term in terms:  # noqa: SIM110 - a generator costs as much as the terms
            if not term(values):
                return False
        return True

    return holds


def _any(*terms: Thunk) -> Thunk:
    return lambda values: any(term(values) for term in terms)


def _chosen(condition: Thunk, then: Thunk, other: Thunk) -> Thunk:
    return lambda values: then(values) if condition(values) else other(values)


Kinds = tuple[tuple[Kind, ...], Kind]
"""Kinds of the operands, and of the result."""
F: Kinds = ("float",), "float"
FF: Kinds = ("float", "float"), "float"
FFF: Kinds = ("float", "float", "float"), "float"
BFF: Kinds = ("bool", "float", "float"), "float"
FF_B: Kinds = ("float", "float"), "bool"
BB: Kinds = ("bool", "bool"), "bool"
INT: Kinds = ("int",), "int"
II: Kinds = ("int", "int"), "int"
II_B: Kinds = ("int", "int"), "bool"
W: Kinds = ("word",), "word"
WW: Kinds = ("word", "word"), "word"

FLOATS = (
    Function("neg", *F, np.negative, "-{0}", lambda f, u, d: negative(d[0])),
    Function("abs", *F, np.abs, "__builtin_fabsf", of_sign),
    Function("add", *FF, np.add, "+", lambda f, u, d: plus(*d), rounds=True),
    Function("sub", *FF, np.subtract, "-", lambda f, u, d: minus(*d), rounds=True),
    Function("mul", *FF, np.multiply, "*", of_product, rounds=True),
    Function("div", *FF, np.divide, "QUOTIENT_F32", of_quotient, header=QUOTIENT, rounds=True),
    Function("fma", *FFF, _fma, "__builtin_fmaf", lambda f, u, d: plus(of_product(f, u, d), d[2]), rounds=True),
    Function("sqrt", *F, np.sqrt, "ROOT_F32", chain(lambda u, f: HALF / f), header=QUOTIENT, rounds=True),
    Function("min", *FF, np.minimum, "least_f32", of_extreme(larger=False), header=WHOLE),
    Function("max", *FF, np.maximum, "most_f32", of_extreme(larger=True), header=WHOLE),
    Function("rem", *FF, np.fmod, "fmodf_f32", of_remainder, 1, WHOLE),
    Function("floor", *F, np.floor, "floorf_f32", header=WHOLE),
    Function("ceil", *F, np.ceil, "ceilf_f32", header=WHOLE),
    Function("round", *F, np.rint, "roundf_f32", header=WHOLE),
    Function("less", *FF_B, np.less, "<"),
    Function("less_equal", *FF_B, np.less_equal, "<="),
    Function("equal", *FF_B, np.equal, "=="),
    Function("choose", *BFF, np.where, "{0} ? {1} : {2}", lambda f, u, d: select(u[0], d[1], d[2])),
    Function("exp", *F, np.exp, "expf_f32", chain(lambda u, f: f), 1, MATH),
    Function("log", *F, np.log, "logf_f32", chain_by(lambda u: u), 1, MATH),
    Function("expm1", *F, np.expm1, "expm1f_f32", chain(lambda u, f: call("exp", u)), 1, MATH),
    Function("log1p", *F, np.log1p, "log1pf_f32", chain_by(lambda u: ONE + u), 1, MATH),
    Function("erf", *F, _erf, "erff_f32", chain(lambda u, f: DENSITY * call("exp", -(u * u))), 1, MATH),
    Function("tanh", *F, np.tanh, "tanhf_f32", chain(lambda u, f: ONE - f * f), 1, MATH),
    Function("sigmoid", *F, _sigmoid, "sigmoidf_f32", chain(lambda u, f: f * (ONE - f)), 1, MATH),
    Function("softplus", *F, _softplus, "softplusf_f32", chain(lambda u, f: call("sigmoid", u)), 2, MATH),
    Function("sin", *F, np.sin, "sinf_f32", chain(lambda u, f: call("cos", u)), 1, TRIG),
    Function("cos", *F, np.cos, "cosf_f32", chain(lambda u, f: -call("sin", u)), 1, TRIG),
    Function("tan", *F, np.tan, "tanf_f32", chain(lambda u, f: ONE + f * f), 1, TRIG),
    Function("asin", *F, np.arcsin, "asinf_f32", chain_by(lambda u: root(circle(u))), 1, TRIG),
    Function("acos", *F, np.arccos, "acosf_f32", lambda f, u, d: negative(over(d[0], root(circle(u[0])))), 1, TRIG),
    Function("atan", *F, np.arctan, "atanf_f32", chain_by(lambda u: ONE + u * u), 1, TRIG),
    Function("sinh", *F, np.sinh, "sinhf_f32", chain(lambda u, f: call("cosh", u)), 1, TRIG),
    Function("cosh", *F, np.cosh, "coshf_f32", chain(lambda u, f: call("sinh", u)), 1, TRIG),
    Function("asinh", *F, np.arcsinh, "asinhf_f32", chain_by(lambda u: root(ONE + u * u)), 1, TRIG),
    Function("acosh", *F, np.arccosh, "acoshf_f32", chain_by(lambda u: root((u - ONE) * (u + ONE))), 1, TRIG),
    Function("atanh", *F, np.arctanh, "atanhf_f32", chain_by(circle), 1, TRIG),
)
BOOLS = (
    Function("and", *BB, np.logical_and, "&&"),
    Function("or", *BB, np.logical_or, "||"),
    Function("xor", *BB, np.logical_xor, "!{0} != !{1}"),
    Function("not", ("bool",), "bool", np.logical_not, "!{0}"),
)
INTS = (
    Function("to_int", ("float",), "int", _integer, "integer_f32", header=WHOLE),
    Function("less", *II_B, np.less, "<"),
    Function("less_equal", *II_B, np.less_equal, "<="),
    Function("equal", *II_B, np.equal, "=="),
    Function("choose", ("bool", "int", "int"), "int", np.where, "{0} ? {1} : {2}"),
    Function("add", *II, np.add, "sum_i32", header=INTEGER),
    Function("sub", *II, np.subtract, "difference_i32", header=INTEGER),
    Function("mul", *II, np.multiply, "product_i32", header=INTEGER),
    Function("div", *II, _quotient, "quotient_i32", header=INTEGER),
    Function("rem", *II, np.fmod, "remainder_i32", header=INTEGER),
    Function("pow", *II, _power, "power_i32", header=INTEGER),
    Function("mod", *II, np.mod, "modulo_i32", header=INTEGER),
    Function("min", *II, np.minimum, "smaller_i32", header=INTEGER),
    Function("max", *II, np.maximum, "larger_i32", header=INTEGER),
    Function("shift_left", *II, _left, "left_i32", header=INTEGER),
    Function("shift_right", *II, _right, "right_i32", header=INTEGER),
    Function("and", *II, np.bitwise_and, "&"),
    Function("or", *II, np.bitwise_or, "|"),
    Function("xor", *II, np.bitwise_xor, "^"),
    Function("not", *INT, np.invert, "~{0}"),
)
WORDS = (
    Function("neg", *W, operator.neg),
    Function("add", *WW, operator.add, "+", variadic=True),
    Function("sub", *WW, operator.sub, "-", variadic=True),
    Function("mul", *WW, operator.mul, "*", variadic=True),
    Function("div", *WW, operator.floordiv, "(({0} / {1}))"),
    Function("mod", *WW, operator.mod),
    Function("min", *WW, min, "hal_min"),
    Function("less", *WW, operator.lt),
    Function("less_equal", *WW, operator.le),
    Function("greater", *WW, operator.gt),
    Function("greater_equal", *WW, operator.ge, ">="),
    Function("equal", *WW, operator.eq, "=="),
    Function("not_equal", *WW, operator.ne),
    Function("and", *WW, _all, "&&", variadic=True, lazy=True),
    Function("or", *WW, _any, variadic=True, lazy=True),
    Function("not", *W, operator.not_, "!{0}"),
    Function("choose", ("word", "word", "word"), "word", _chosen, "{0} ? {1} : {2}", lazy=True),
    Function("window", ("word", "word", "word"), "word", _window, "hal_window"),
    Function("reach", ("word", "word", "word", "word"), "word", _reach, "hal_reach"),
    Function("signed", *W, int, "(int32_t)({0})"),
)
for row in (*FLOATS, *BOOLS, *INTS, *WORDS):
    FUNCTIONS.setdefault(row.name, []).append(row)
