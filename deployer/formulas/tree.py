"""The tree of a formula: numbers, inputs, attributes, and calls of the functions in `functions.py`.

A formula is real, a truth (what compares), or whole: an integer of 32 bits. Kinds are checked where a call is
made, so no reader has to.
"""

from dataclasses import dataclass
from typing import Literal

from deployer.core.errors import InternalError

Kind = Literal["float", "bool", "int"]
SIGNATURES: dict[str, tuple[tuple[Kind, ...], Kind]] = {
    **dict.fromkeys(("neg", "abs", "floor", "ceil", "round", "sqrt", "exp", "log"), (("float",), "float")),
    **dict.fromkeys(("expm1", "log1p", "erf", "tanh", "sigmoid", "softplus"), (("float",), "float")),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), (("float",), "float")),
    **dict.fromkeys(("sinh", "cosh", "asinh", "acosh", "atanh"), (("float",), "float")),
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max", "rem"), (("float", "float"), "float")),
    **dict.fromkeys(("less", "less_equal", "equal"), (("float", "float"), "bool")),
    **dict.fromkeys(("and", "or", "xor"), (("bool", "bool"), "bool")),
    "not": (("bool",), "bool"),
    **dict.fromkeys(("int_less", "int_less_equal", "int_equal"), (("int", "int"), "bool")),
    **dict.fromkeys(("int_add", "int_sub", "int_mul", "int_div", "int_rem", "int_mod"), (("int", "int"), "int")),
    **dict.fromkeys(("int_pow", "int_min", "int_max", "shift_left", "shift_right"), (("int", "int"), "int")),
    **dict.fromkeys(("bits_and", "bits_or", "bits_xor"), (("int", "int"), "int")),
    "to_int": (("float",), "int"),
    "bits_not": (("int",), "int"),
    "int_choose": (("bool", "int", "int"), "int"),
    "fma": (("float", "float", "float"), "float"),
    "choose": (("bool", "float", "float"), "float"),
}
"""The kinds of the operands of each function, and of its result."""


@dataclass(frozen=True)
class Formula:
    """A node of the tree; arithmetic and comparisons of Python make calls, numbers become constants."""

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return "float"

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
        return call("less_equal", self, other)

    def __gt__(self, other: "Value") -> "Formula":
        return call("less", other, self)

    def __ge__(self, other: "Value") -> "Formula":
        return call("less_equal", other, self)


Value = Formula | float


@dataclass(frozen=True)
class Number(Formula):
    """A constant, rounded to the type of the operands where it is used."""

    value: float


@dataclass(frozen=True)
class Input(Formula):
    """Element of an operand; of int32 it is a bool, true where it is not 0, unless it is `is_int`."""

    name: str
    dtype: str = "float32"
    is_int: bool = False

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return "float" if self.dtype == "float32" else "int" if self.is_int else "bool"


@dataclass(frozen=True)
class Attr(Formula):
    """An attribute of the node: one float32, an argument of the kernel."""

    name: str


@dataclass(frozen=True)
class FunctionCall(Formula):
    """A function of further formulas; `call` makes it."""

    function: str
    arguments: tuple[Formula, ...]

    @property
    def kind(self) -> Kind:
        """Whether this is a number or a truth."""
        return SIGNATURES[self.function][1]

    @property
    def operands(self) -> tuple[Formula, ...]:
        """Arguments of the function."""
        return self.arguments


def call(function: str, *operands: Value) -> Formula:
    """A call; InternalError where operands are too many, too few, or of another kind than the function takes."""
    arguments = tuple(x if isinstance(x, Formula) else Number(float(x)) for x in operands)
    expected, found = SIGNATURES[function][0], tuple(x.kind for x in arguments)
    if found != expected:
        raise InternalError(f"{function} takes {', '.join(expected)}", [("found", ", ".join(found) or "nothing")])
    return FunctionCall(function, arguments)


def choose(condition: Formula, then: Value, other: Value) -> Formula:
    """One of two values; the other may be anything, also NaN."""
    return call("choose", condition, then, other)


def fma(a: Value, b: Value, c: Value) -> Formula:
    """a b + c, rounded once."""
    return call("fma", a, b, c)


def minimum(a: Value, b: Value) -> Formula:
    """The smaller of two; NaN where one is."""
    return call("min", a, b)


def maximum(a: Value, b: Value) -> Formula:
    """The larger of two; NaN where one is."""
    return call("max", a, b)


def inputs_of(formula: Formula) -> tuple[Input, ...]:
    """The inputs that a formula reads, each once, from left to right."""
    return tuple(dict.fromkeys(node for node in walk(formula) if isinstance(node, Input)))


def attributes_of(formula: Formula) -> tuple[str, ...]:
    """The attributes that a formula reads, each once, from left to right."""
    return tuple(dict.fromkeys(node.name for node in walk(formula) if isinstance(node, Attr)))


def divisors_of(formula: Formula) -> tuple[str, ...]:
    """The attributes that a formula divides by, each once, from left to right."""
    quotients = [node for node in walk(formula) if isinstance(node, FunctionCall) and node.function == "div"]
    return tuple(dict.fromkeys(node.arguments[1].name for node in quotients if isinstance(node.arguments[1], Attr)))


def walk(formula: Formula) -> tuple[Formula, ...]:
    """All nodes of the tree, each once, operands before what is computed from them."""
    seen: dict[Formula, None] = {}
    waiting = [(formula, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            seen.setdefault(node)
        elif node not in seen:
            waiting.append((node, True))
            waiting += [(inner, False) for inner in reversed(node.operands)]
    return tuple(seen)


def replaced(formula: Formula, old: Formula, new: Formula) -> Formula:
    """The formula with each occurrence of a part replaced."""
    if formula == old:
        return new
    if isinstance(formula, FunctionCall):
        return FunctionCall(formula.function, tuple(replaced(node, old, new) for node in formula.arguments))
    return formula
