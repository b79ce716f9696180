"""The tree of a formula: numbers, inputs, attributes, and calls of the functions in `functions.py`.

A formula is real, a truth (what compares), or whole: an integer of 32 bits. Kinds are checked where a call is
made, so no reader has to.
"""

from dataclasses import dataclass
from typing import Literal

from deployer.core.errors import InternalError

Kind = Literal["real", "truth", "whole"]
SIGNATURES: dict[str, tuple[tuple[Kind, ...], Kind]] = {
    **dict.fromkeys(("neg", "abs", "floor", "ceil", "round", "sqrt", "exp", "log"), (("real",), "real")),
    **dict.fromkeys(("expm1", "log1p", "erf", "tanh", "sigmoid", "softplus"), (("real",), "real")),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), (("real",), "real")),
    **dict.fromkeys(("sinh", "cosh", "asinh", "acosh", "atanh"), (("real",), "real")),
    **dict.fromkeys(("add", "sub", "mul", "div", "least", "most", "remainder"), (("real", "real"), "real")),
    **dict.fromkeys(("less", "at_most", "equal"), (("real", "real"), "truth")),
    **dict.fromkeys(("both", "either", "differ"), (("truth", "truth"), "truth")),
    "negation": (("truth",), "truth"),
    **dict.fromkeys(("whole_less", "whole_at_most", "whole_equal"), (("whole", "whole"), "truth")),
    **dict.fromkeys(("sum", "difference", "product", "quotient", "rest", "modulo"), (("whole", "whole"), "whole")),
    **dict.fromkeys(("power", "smaller", "larger", "left", "right"), (("whole", "whole"), "whole")),
    **dict.fromkeys(("bits_and", "bits_or", "bits_xor"), (("whole", "whole"), "whole")),
    "integer": (("real",), "whole"),
    "bits_not": (("whole",), "whole"),
    "whole_choose": (("truth", "whole", "whole"), "whole"),
    "fma": (("real", "real", "real"), "real"),
    "choose": (("truth", "real", "real"), "real"),
}
"""The kinds of the operands of each function, and of its result."""


@dataclass(frozen=True)
class Formula:
    """A node of the tree; arithmetic and comparisons of Python make calls, numbers become constants."""

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return "real"

    @property
    def operands(self) -> tuple["Formula", ...]:
        """Operands of the node."""
        return ()

    def __neg__(self) -> "Formula":
        return call("neg", self)

    def __add__(self, other: "Value") -> "Formula":
        return call("add", self, other)

    def __radd__(self, other: "Value") -> "Formula":
        return call("add", other, self)

    def __sub__(self, other: "Value") -> "Formula":
        return call("sub", self, other)

    def __rsub__(self, other: "Value") -> "Formula":
        return call("sub", other, self)

    def __mul__(self, other: "Value") -> "Formula":
        return call("mul", self, other)

    def __rmul__(self, other: "Value") -> "Formula":
        return call("mul", other, self)

    def __truediv__(self, other: "Value") -> "Formula":
        return call("div", self, other)

    def __rtruediv__(self, other: "Value") -> "Formula":
        return call("div", other, self)

    def __lt__(self, other: "Value") -> "Formula":
        return call("less", self, other)

    def __le__(self, other: "Value") -> "Formula":
        return call("at_most", self, other)

    def __gt__(self, other: "Value") -> "Formula":
        return call("less", other, self)

    def __ge__(self, other: "Value") -> "Formula":
        return call("at_most", other, self)


Value = Formula | float


@dataclass(frozen=True)
class Number(Formula):
    """A constant, rounded to the type of the operands where it is used."""

    value: float


@dataclass(frozen=True)
class Input(Formula):
    """Element of an operand; of int32 it is a bool, true where it is not 0, unless it is `whole`."""

    name: str
    dtype: str = "float32"
    whole: bool = False

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return "real" if self.dtype == "float32" else "whole" if self.whole else "truth"


@dataclass(frozen=True)
class Attr(Formula):
    """An attribute of the node: one float32, an argument of the kernel."""

    name: str


@dataclass(frozen=True)
class FunctionCall(Formula):
    """A function of further formulas; `call` makes it."""

    function: str
    parts: tuple[Formula, ...]

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return SIGNATURES[self.function][1]

    @property
    def operands(self) -> tuple[Formula, ...]:
        """Arguments of the function."""
        return self.parts


def call(function: str, *operands: Value) -> Formula:
    """A call; InternalError where operands are too many, too few, or of another kind than the function takes."""
    parts = tuple(x if isinstance(x, Formula) else Number(float(x)) for x in operands)
    expected, found = SIGNATURES[function][0], tuple(x.kind for x in parts)
    if found != expected:
        raise InternalError(f"{function} takes {', '.join(expected)}", [("found", ", ".join(found) or "nothing")])
    return FunctionCall(function, parts)


def choose(condition: Formula, then: Value, other: Value) -> Formula:
    """One of two values; the other may be anything, also NaN."""
    return call("choose", condition, then, other)


def fma(a: Value, b: Value, c: Value) -> Formula:
    """a b + c, rounded once."""
    return call("fma", a, b, c)


def least(a: Value, b: Value) -> Formula:
    """The smaller of two; NaN where one is."""
    return call("least", a, b)


def most(a: Value, b: Value) -> Formula:
    """The larger of two; NaN where one is."""
    return call("most", a, b)


def inputs_of(formula: Formula) -> tuple[Input, ...]:
    """The inputs that a formula reads, each once, from left to right."""
    return tuple(dict.fromkeys(part for part in walk(formula) if isinstance(part, Input)))


def settings_of(formula: Formula) -> tuple[str, ...]:
    """The attributes that a formula reads, each once, from left to right."""
    return tuple(dict.fromkeys(part.name for part in walk(formula) if isinstance(part, Attr)))


def divisors_of(formula: Formula) -> tuple[str, ...]:
    """The attributes that a formula divides by, each once, from left to right."""
    quotients = [part for part in walk(formula) if isinstance(part, FunctionCall) and part.function == "div"]
    return tuple(dict.fromkeys(part.parts[1].name for part in quotients if isinstance(part.parts[1], Attr)))


def walk(formula: Formula) -> tuple[Formula, ...]:
    """All nodes of the tree, each once, operands before what is computed from them."""
    seen: dict[Formula, None] = {}
    waiting = [(formula, False)]
    while waiting:
        part, ready = waiting.pop()
        if ready:
            seen.setdefault(part)
        elif part not in seen:
            waiting.append((part, True))
            waiting += [(inner, False) for inner in reversed(part.operands)]
    return tuple(seen)


def replaced(formula: Formula, old: Formula, new: Formula) -> Formula:
    """The formula with each occurrence of a part replaced."""
    if formula == old:
        return new
    if isinstance(formula, FunctionCall):
        return FunctionCall(formula.function, tuple(replaced(part, old, new) for part in formula.parts))
    return formula
