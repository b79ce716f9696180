"""Expressions of a loop program: frozen trees over unsigned integers, with constants folded.

Indices, lengths, offsets and strides count elements; sizes of transfers are bytes. A plain `int` is an expression too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self, Union


@dataclass(frozen=True)
class Tree:
    """A node: its fields are nodes, tuples of nodes, or plain values, in the order in which they stand in C."""

    def children(self) -> Iterator["Tree"]:
        """The child nodes, in order."""
        kind: Any = type(self)
        for name in _fields(kind):
            value = getattr(self, name)
            if isinstance(value, Tree):
                yield value
            elif isinstance(value, tuple):
                yield from (item for item in value if isinstance(item, Tree))

    def mapped(self, change: Callable[["Tree"], "Tree"]) -> Self:
        """A copy of the node with each child replaced by `change` of it."""
        kind: Any = type(self)
        values: list[Any] = []
        for name in _fields(kind):
            value = getattr(self, name)
            if isinstance(value, Tree):
                value = change(value)
            elif isinstance(value, tuple):
                value = tuple([change(x) if isinstance(x, Tree) else x for x in value])
            values.append(value)
        return type(self)(*values)

    def walk(self) -> Iterator["Tree"]:
        """This node and all its descendants, each before its children."""
        ahead: list[Tree] = [self]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(list(node.children()))


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The names of a node's fields."""
    return tuple(field.name for field in fields(kind))


Expr = Union[int, "ExprNode"]


@dataclass(frozen=True)
class ExprNode(Tree):
    """An expression that is not a plain number."""


@dataclass(frozen=True)
class Var(ExprNode):
    """A variable, by name: a coordinate, a length, the number of a slot, a parameter."""

    name: str


@dataclass(frozen=True)
class Element(ExprNode):
    """An element of an array, by the array's name and an index."""

    array: str
    index: Expr


@dataclass(frozen=True)
class SizeExpr(ExprNode):
    """A constant with a name. If steps with different values share a function, it becomes a parameter of that name."""

    value: int
    name: str


@dataclass(frozen=True)
class HomeExpr(ExprNode):
    """The address of a tensor's home, for a kernel's pointer to elements of that type; moved ones may be of another."""

    storage: str
    dtype: str = ""


@dataclass(frozen=True)
class Slot(ExprNode):
    """The address of the first slot of a step's operand: a slot of the stage if `staged`, else of the tile loop."""

    step: int
    arg: str
    staged: bool


@dataclass(frozen=True)
class SumExpr(ExprNode):
    """The sum of terms, constants last."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True)
class Product(ExprNode):
    """The product of factors, the constant last."""

    factors: tuple[Expr, ...]


@dataclass(frozen=True)
class Difference(ExprNode):
    """The first term minus all others; it is not negative."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True)
class Signed(ExprNode):
    """A value as a signed integer, minus other signed integers."""

    value: Expr
    less: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class SignedVar(ExprNode):
    """A variable as a signed integer."""

    name: str


@dataclass(frozen=True)
class Quotient(ExprNode):
    """A value divided by a constant, rounded up."""

    value: Expr
    divisor: int


@dataclass(frozen=True)
class Least(ExprNode):
    """The smaller of two values."""

    first: Expr
    second: Expr


@dataclass(frozen=True)
class Clipped(ExprNode):
    """An index minus the `before` indices that lie before an axis, clipped to 0..extent."""

    index: Expr
    before: int
    extent: Expr


@dataclass(frozen=True)
class Reached(ExprNode):
    """The first window that contains an index: (index - reach) / stride, rounded up and clipped to 0..extent."""

    index: Expr
    reach: int
    stride: int
    extent: int


@dataclass(frozen=True)
class EqualExpr(ExprNode):
    """Whether two values are the same."""

    first: Expr
    second: Expr


@dataclass(frozen=True)
class AtLeast(ExprNode):
    """Whether the first value is not below the second."""

    first: Expr
    second: Expr


@dataclass(frozen=True)
class NotExpr(ExprNode):
    """Whether a value is 0."""

    value: Expr


@dataclass(frozen=True)
class All(ExprNode):
    """Whether all terms hold."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True)
class Choice(ExprNode):
    """The second expression where the first holds, else the third."""

    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True)
class Real(ExprNode):
    """A float32 constant."""

    value: float


def add(*terms: Expr) -> Expr:
    """The sum of the terms, without zeros, and with all constants as one term at the end."""
    parts: list[Expr] = [t for t in terms if not isinstance(t, int)]
    constant = sum(t for t in terms if isinstance(t, int))
    if constant or not parts:
        parts.append(constant)
    return parts[0] if len(parts) == 1 else SumExpr(tuple(parts))


def mul(*factors: Expr) -> Expr:
    """The product of the factors: 0 if one is, else without ones and with all constants as one factor at the end.

    A sum as the only factor stays a product, so that it is printed in parentheses where needed.
    """
    constant = 1
    parts: list[Expr] = []
    for factor in factors:
        for part in factor.factors if isinstance(factor, Product) else (factor,):
            if isinstance(part, int):
                constant *= part
            else:
                parts.append(part)
    if constant == 0 or not parts:
        return constant
    if constant != 1:
        parts.append(constant)
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], SumExpr) else Product(tuple(parts))


def sub(value: Expr, less: Expr) -> Expr:
    """The difference of two values: 0 for equal ones, and the value itself if `less` is 0."""
    if value == less:
        return 0
    if isinstance(value, int) and isinstance(less, int):
        return value - less
    return value if less == 0 else Difference((value, less))


def moved(value: Expr, by: int) -> Expr:
    """The value and a constant, which may be negative."""
    return add(value, by) if by >= 0 else sub(value, -by)


def sized(value: Expr, name: str) -> Expr:
    """The expression with a name for its constant, or for the constant factor of its last term."""
    if isinstance(value, int):
        return SizeExpr(value, name)
    if isinstance(value, Product) and isinstance(value.factors[-1], int):
        return Product((*value.factors[:-1], SizeExpr(value.factors[-1], name)))
    if isinstance(value, SumExpr) and isinstance(value.terms[-1], (Product, SumExpr)):
        return SumExpr((*value.terms[:-1], sized(value.terms[-1], name)))
    return value


def variables(trees: "Tree | int | tuple[Tree | int, ...]") -> set[str]:
    """Names of all variables in the trees."""
    names: set[str] = set()
    for tree in trees if isinstance(trees, tuple) else (trees,):
        if isinstance(tree, Tree):
            names |= {node.name for node in tree.walk() if isinstance(node, (Var, SignedVar))}
    return names
