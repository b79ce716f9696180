"""Formulas of elementwise operators: leaves, functions by name, and what a formula reads and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.kernel_model import KernelModel
from deployer.expressions import functions  # noqa: F401 - declares what `call` finds
from deployer.expressions.tree import Expression, Kind, Value, call, calls, distinct

Formula = Expression
"""A formula is of floats, bools and ints."""


@dataclass(frozen=True)
class Input(Expression):
    """Element of an operand; of int32 it is a bool, true where it is not 0, unless it is `is_int`."""

    name: str
    dtype: str = "float32"
    is_int: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of the element."""
        return "float" if self.dtype == "float32" else "int" if self.is_int else "bool"


@dataclass(frozen=True)
class Attr(Expression):
    """An attribute of the node: one float32, an argument of the kernel."""

    name: str

    @property
    def kind(self) -> Kind:
        """Always `float`."""
        return "float"


def choose(condition: Expression, then: Value, other: Value) -> Expression:
    """One of two values; the other may be anything, also NaN."""
    return call("choose", condition, then, other)


def fma(a: Value, b: Value, c: Value) -> Expression:
    """a b + c, rounded once."""
    return call("fma", a, b, c)


def minimum(a: Value, b: Value) -> Expression:
    """The smaller of two; NaN where one is."""
    return call("min", a, b)


def maximum(a: Value, b: Value) -> Expression:
    """The larger of two; NaN where one is."""
    return call("max", a, b)


def inputs_of(formula: Expression) -> tuple[Input, ...]:
    """The inputs that a formula reads, each once, from left to right."""
    return tuple(node for node in distinct(formula) if isinstance(node, Input))


def attributes_of(formula: Expression) -> tuple[str, ...]:
    """The attributes that a formula reads, each once, from left to right."""
    return tuple(node.name for node in distinct(formula) if isinstance(node, Attr))


def divisors_of(formula: Expression) -> tuple[str, ...]:
    """The attributes that a formula divides by, each once, from left to right."""
    divisors = [node.operands[1] for node in calls(formula) if node.function.name == "div"]
    return tuple(dict.fromkeys(divisor.name for divisor in divisors if isinstance(divisor, Attr)))


def operations(*formulas: Expression) -> tuple[int, int]:
    """Count element operations and transcendental functions of an element; equal parts are computed once."""
    counts = [node.function.transcendentals for node in calls(*formulas)]
    return counts.count(0), sum(counts)


def work_of(formulas: Sequence[Expression], model: KernelModel) -> int:
    """Return the element operations for one element of all results."""
    plain, transcendentals = operations(*formulas)
    return max(plain + transcendentals * model.transcendental_elements, 1)
