"""Functions of formulas with their derivatives and costs, and values of formulas in numpy."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array
from deployer.formulas.tree import Attr, Formula, FunctionCall, Input, Number, call, choose, walk

# Functions of formulas: each row has its meaning in numpy, its C, its derivative and its work.
#
# C is of the language, of `quotient_f32.h`, of `whole_f32.h`, which rounds nothing, or of `math_f32.h` and
# `trig_f32.h`: every target gives the same bits. A derivative is of the whole call, from those of its operands; terms
# that are zero vanish while it is made.

MATH, TRIG, WHOLE, INTEGER = "math_f32.h", "trig_f32.h", "whole_f32.h", "integer_i32.h"
QUOTIENT = "quotient_f32.h"
APPROXIMATIONS = frozenset({MATH, TRIG})
"""Headers whose functions are within units of the last place."""
ZERO, ONE = Number(0.0), Number(1.0)
Slope = Callable[[Formula, Sequence[Formula]], Formula]


@dataclass(frozen=True)
class Function:
    """A function: `c` with its operands' texts in braces, and `slope` from the call and the operands' derivatives.

    `header` has what is no operator of C. The work is one element operation, or that of so many `transcendentals`.
    """

    numpy: Callable[..., Any]
    c: str
    slope: Slope
    transcendentals: int = 0
    header: str = ""
    rounds: bool = False

    @property
    def exact(self) -> bool:
        """Whether IEEE 754, or the choice of an operand, leaves it one result in float32."""
        return not (self.rounds or self.header in APPROXIMATIONS)


def plus(a: Formula, b: Formula) -> Formula:
    """a + b without zeros."""
    return b if a == ZERO else a if b == ZERO else a + b


def minus(a: Formula, b: Formula) -> Formula:
    """a - b without zeros."""
    return a if b == ZERO else negative(b) if a == ZERO else a - b


def negative(a: Formula) -> Formula:
    """-a, of a number at once."""
    return Number(-a.value) if isinstance(a, Number) and a != ZERO else a if a == ZERO else -a


def times(a: Formula, b: Formula) -> Formula:
    """a b without ones; where a chosen factor is 0 or 1, so is the product 0 or the other factor, whatever that is."""
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    for chosen, other in ((b, a), (a, b)):
        if _name_of(chosen) == "choose" and {ZERO, ONE} & set(chosen.operands):
            condition, then, otherwise = chosen.operands
            return select(condition, times(other, then), times(other, otherwise))
    return a * b


def over(a: Formula, b: Formula) -> Formula:
    """a / b without zeros."""
    return ZERO if a == ZERO else a / b


def select(condition: Formula, then: Formula, other: Formula) -> Formula:
    """The choice, unless both are the same."""
    return then if then == other else choose(condition, then, other)


def _name_of(formula: Formula) -> str:
    return getattr(formula, "function", "")


def _zero(f: Formula, d: Sequence[Formula]) -> Formula:
    return ZERO


def _outer(slope: Callable[[Formula, Formula], Formula]) -> Slope:
    """The chain rule for a function of one operand, by its slope from the operand and the call itself."""
    return lambda f, d: ZERO if d[0] == ZERO else times(d[0], slope(f.operands[0], f))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), np.asarray(x).dtype)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _circle(u: Formula) -> Formula:
    """1 - u^2, as accurate near 1 as elsewhere."""
    return (ONE - u) * (ONE + u)


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


def _of_sign(u: Formula, d: Formula) -> Formula:
    return select(Number(0.0) < u, d, select(u < 0.0, negative(d), ZERO))


def _extreme(larger: bool) -> Slope:
    """The derivative of the chosen one; of both a half where they are equal."""

    def slope(f: Formula, d: Sequence[Formula]) -> Formula:
        a, b = f.operands
        first, second = (b < a, a < b) if larger else (a < b, b < a)
        if isinstance(a, Number) or isinstance(b, Number):  # a clip: nothing to share
            return select(first, d[0], d[1]) if isinstance(b, Number) else select(second, d[1], d[0])
        return select(first, d[0], select(second, d[1], times(Number(0.5), plus(d[0], d[1]))))

    return slope


def _choice(f: Formula, d: Sequence[Formula]) -> Formula:
    return select(f.operands[0], d[1], d[2])


DENSITY = Number(2 / math.sqrt(math.pi))
FUNCTIONS: dict[str, Function] = {
    "neg": Function(np.negative, "(-{0})", lambda f, d: negative(d[0])),
    "abs": Function(np.abs, "__builtin_fabsf({0})", lambda f, d: _of_sign(f.operands[0], d[0])),
    "add": Function(np.add, "({0} + {1})", lambda f, d: plus(*d), rounds=True),
    "sub": Function(np.subtract, "({0} - {1})", lambda f, d: minus(*d), rounds=True),
    "mul": Function(
        np.multiply,
        "({0} * {1})",
        lambda f, d: plus(times(d[0], f.operands[1]), times(d[1], f.operands[0])),
        rounds=True,
    ),
    "div": Function(
        np.divide,
        "QUOTIENT_F32({0}, {1})",
        lambda f, d: over(minus(d[0], times(d[1], f)), f.operands[1]),
        header=QUOTIENT,
        rounds=True,
    ),
    "fma": Function(
        lambda a, b, c: a * b + c,
        "__builtin_fmaf({0}, {1}, {2})",
        lambda f, d: plus(plus(times(d[0], f.operands[1]), times(d[1], f.operands[0])), d[2]),
        rounds=True,
    ),
    "min": Function(np.minimum, "least_f32({0}, {1})", _extreme(False), header=WHOLE),
    "max": Function(np.maximum, "most_f32({0}, {1})", _extreme(True), header=WHOLE),
    "rem": Function(
        np.fmod,
        "fmodf_f32({0}, {1})",
        lambda f, d: minus(d[0], times(d[1], call("round", (f.operands[0] - f) / f.operands[1]))),
        1,
        WHOLE,
    ),
    "less": Function(np.less, "({0} < {1})", _zero),
    "less_equal": Function(np.less_equal, "({0} <= {1})", _zero),
    "equal": Function(np.equal, "({0} == {1})", _zero),
    "and": Function(np.logical_and, "({0} && {1})", _zero),
    "or": Function(np.logical_or, "({0} || {1})", _zero),
    "xor": Function(np.logical_xor, "(!{0} != !{1})", _zero),
    "not": Function(np.logical_not, "(!{0})", _zero),
    "to_int": Function(_integer, "integer_f32({0})", _zero, header=WHOLE),
    "choose": Function(np.where, "({0} ? {1} : {2})", _choice),
    "floor": Function(np.floor, "floorf_f32({0})", _zero, header=WHOLE),
    "ceil": Function(np.ceil, "ceilf_f32({0})", _zero, header=WHOLE),
    "round": Function(np.rint, "roundf_f32({0})", _zero, header=WHOLE),
    "sqrt": Function(np.sqrt, "ROOT_F32({0})", _outer(lambda u, f: Number(0.5) / f), header=QUOTIENT, rounds=True),
    "exp": Function(np.exp, "expf_f32({0})", _outer(lambda u, f: f), 1, MATH),
    "log": Function(np.log, "logf_f32({0})", lambda f, d: over(d[0], f.operands[0]), 1, MATH),
    "expm1": Function(np.expm1, "expm1f_f32({0})", _outer(lambda u, f: call("exp", u)), 1, MATH),
    "log1p": Function(np.log1p, "log1pf_f32({0})", lambda f, d: over(d[0], ONE + f.operands[0]), 1, MATH),
    "erf": Function(_erf, "erff_f32({0})", _outer(lambda u, f: DENSITY * call("exp", -(u * u))), 1, MATH),
    "tanh": Function(np.tanh, "tanhf_f32({0})", _outer(lambda u, f: ONE - f * f), 1, MATH),
    "sigmoid": Function(_sigmoid, "sigmoidf_f32({0})", _outer(lambda u, f: f * (ONE - f)), 1, MATH),
    "softplus": Function(_softplus, "softplusf_f32({0})", _outer(lambda u, f: call("sigmoid", u)), 2, MATH),
}
_TRIG: dict[str, tuple[Callable[..., Any], Slope]] = {
    "sin": (np.sin, _outer(lambda u, f: call("cos", u))),
    "cos": (np.cos, _outer(lambda u, f: -call("sin", u))),
    "tan": (np.tan, _outer(lambda u, f: ONE + f * f)),
    "asin": (np.arcsin, lambda f, d: over(d[0], call("sqrt", _circle(f.operands[0])))),
    "acos": (np.arccos, lambda f, d: negative(over(d[0], call("sqrt", _circle(f.operands[0]))))),
    "atan": (np.arctan, lambda f, d: over(d[0], ONE + f.operands[0] * f.operands[0])),
    "sinh": (np.sinh, _outer(lambda u, f: call("cosh", u))),
    "cosh": (np.cosh, _outer(lambda u, f: call("sinh", u))),
    "asinh": (np.arcsinh, lambda f, d: over(d[0], call("sqrt", ONE + f.operands[0] * f.operands[0]))),
    "acosh": (np.arccosh, lambda f, d: over(d[0], call("sqrt", (f.operands[0] - ONE) * (f.operands[0] + ONE)))),
    "atanh": (np.arctanh, lambda f, d: over(d[0], _circle(f.operands[0]))),
}
FUNCTIONS |= {
    name: Function(meaning, f"{name}f_f32({{0}})", slope, 1, TRIG) for name, (meaning, slope) in _TRIG.items()
}

_INTEGERS: dict[str, tuple[Callable[..., Any], str]] = {
    "int_less": (np.less, "({0} < {1})"),
    "int_less_equal": (np.less_equal, "({0} <= {1})"),
    "int_equal": (np.equal, "({0} == {1})"),
    "int_choose": (np.where, "({0} ? {1} : {2})"),
    "int_add": (np.add, "sum_i32({0}, {1})"),
    "int_sub": (np.subtract, "difference_i32({0}, {1})"),
    "int_mul": (np.multiply, "product_i32({0}, {1})"),
    "int_div": (_quotient, "quotient_i32({0}, {1})"),
    "int_rem": (np.fmod, "remainder_i32({0}, {1})"),
    "int_pow": (_power, "power_i32({0}, {1})"),
    "int_mod": (np.mod, "modulo_i32({0}, {1})"),
    "int_min": (np.minimum, "smaller_i32({0}, {1})"),
    "int_max": (np.maximum, "larger_i32({0}, {1})"),
    "shift_left": (_left, "left_i32({0}, {1})"),
    "shift_right": (_right, "right_i32({0}, {1})"),
    "bits_and": (np.bitwise_and, "({0} & {1})"),
    "bits_or": (np.bitwise_or, "({0} | {1})"),
    "bits_xor": (np.bitwise_xor, "({0} ^ {1})"),
    "bits_not": (np.invert, "(~{0})"),
}
FUNCTIONS |= {
    name: Function(meaning, c, _zero, header="" if c.startswith("(") else INTEGER)
    for name, (meaning, c) in _INTEGERS.items()
}


def derivative(formula: Formula, of: Formula) -> Formula:
    """The derivative of a formula with respect to one of its inputs."""
    found: dict[Formula, Formula] = {}
    for node in walk(formula):
        if node == of:
            found[node] = ONE
        elif node.operands:
            inner = [found[x] for x in node.operands]
            found[node] = ZERO if set(inner) == {ZERO} else FUNCTIONS[_name_of(node)].slope(node, inner)
        else:
            found[node] = ZERO
    return found[formula]


def operations(formula: Formula) -> tuple[int, int]:
    """Count element operations and transcendental functions of an element; equal parts are computed once."""
    functions = [FUNCTIONS[_name_of(node)] for node in walk(formula) if node.operands]
    return sum(not f.transcendentals for f in functions), sum(f.transcendentals for f in functions)


def work_of(formula: Formula, model: KernelModel) -> int:
    """Return the element operations for one element of the result."""
    plain, transcendentals = operations(formula)
    return max(plain + transcendentals * model.transcendental_elements, 1)


# Formulas in numpy, in the type of the operands: float32 as the kernels round, float64 as the meaning.


def evaluate(formula: Formula, inputs: Mapping[str, Array], attributes: Mapping[str, float]) -> Array:
    """The value of a formula: numbers in the type of the first input that is one, integers in theirs, truths as int32.

    An attribute of a file is the float32 that the kernel gets; that of a captured step is the module's own number.
    """
    reals = [inputs[x.name] for x in walk(formula) if isinstance(x, Input) and x.kind == "float"]
    dtype = reals[0].dtype if reals else np.dtype(np.float32)
    found: dict[Formula, Array] = {}
    with np.errstate(all="ignore"):
        for node in walk(formula):
            match node:
                case Number(value):
                    found[node] = np.asarray(value, dtype)
                case Attr(name):
                    found[node] = np.asarray(attributes[name], dtype)
                case Input(name):
                    found[node] = inputs[name] != 0 if node.kind == "bool" else inputs[name]
                case FunctionCall(function, operands):
                    found[node] = np.asarray(FUNCTIONS[function].numpy(*(found[x] for x in operands)))
    if formula.kind == "int":
        return found[formula]
    return np.asarray(found[formula], dtype if formula.kind == "float" else np.int32)
