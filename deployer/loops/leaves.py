"""Leaves of a loop program's expressions, which are words: addresses, constants with a name, elements of arrays.

Indices, lengths, offsets and strides count elements; sizes of transfers are bytes.
"""

from dataclasses import dataclass

from deployer.expressions.tree import Call, Expr, Expression, Var
from deployer.expressions.words import ADD, MUL


@dataclass(frozen=True)
class Element(Expression):
    """An element of an array, by the array's name and an index."""

    array: str
    index: Expr


@dataclass(frozen=True)
class SizeExpr(Expression):
    """A constant with a name. If steps with different values share a function, it becomes a parameter of that name."""

    value: int
    name: str


@dataclass(frozen=True)
class HomeExpr(Expression):
    """The address of a tensor's home, for a kernel's pointer to elements of that type; moved ones may be of another."""

    storage: str
    dtype: str = ""


@dataclass(frozen=True)
class SlotExpr(Expression):
    """The address of the first slot of a step's operand: a slot of the stage if `staged`, else of the tile loop."""

    step: int
    arg: str
    staged: bool


@dataclass(frozen=True)
class SignedVar(Var):
    """A variable as a signed integer."""


def sized(value: Expr, name: str) -> Expr:
    """The expression with a name for its constant, or for the constant factor of its last term."""
    match value:
        case int():
            return SizeExpr(value, name)
        case Call(function, (*factors, int(factor))) if function is MUL:
            return Call(MUL, (*factors, SizeExpr(factor, name)))
        case Call(function, (*terms, Call(last) as term)) if function is ADD and last in (ADD, MUL):
            return Call(ADD, (*terms, sized(term, name)))
    return value
