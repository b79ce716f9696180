"""The tree of an expression: numbers, leaves of whoever makes them, and calls of the functions in `functions.py`.

Formulas of operators, indices of loop programs and conditions of kernel variants are such trees. Kinds keep them apart
where their arithmetic differs, and are checked where `call` makes a node.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, Self, Union

from deployer.core.errors import InternalError

Kind = Literal["float", "bool", "int", "word"]
"""`float` is a float32, `int` an int32 that wraps, `bool` a comparison of these.

A `word` is an unsigned number of a loop program (an index, a size, an address, a ticket), or an integer of a condition;
it never overflows. Its truths are words, too: 0 is false.
"""
Slope = Callable[["Call", Sequence["Expression"], Sequence["Expression"]], "Expression"]
"""The derivative of a call, from its operands and their derivatives."""
Thunk = Callable[[Any], Any]
"""The value of an expression for the values of its variables."""


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


Expr = Union[int, "Expression"]
"""A plain `int` is a word."""
Value = Union[float, "Expression"]
"""A plain number becomes one of the kind that its function takes."""


@dataclass(frozen=True)
class Expression(Tree):
    """An expression that is not a plain number; arithmetic and comparisons of Python make calls."""

    @property
    def kind(self) -> Kind:
        """The kind of the value."""
        return "word"

    def __neg__(self) -> "Expression":
        return call("neg", self)

    def __add__(self, other: Value) -> "Expression":
        return call("add", self, other)

    def __radd__(self, other: Value) -> "Expression":
        return call("add", other, self)

    def __sub__(self, other: Value) -> "Expression":
        return call("sub", self, other)

    def __rsub__(self, other: Value) -> "Expression":
        return call("sub", other, self)

    def __mul__(self, other: Value) -> "Expression":
        return call("mul", self, other)

    def __rmul__(self, other: Value) -> "Expression":
        return call("mul", other, self)

    def __truediv__(self, other: Value) -> "Expression":
        return call("div", self, other)

    def __rtruediv__(self, other: Value) -> "Expression":
        return call("div", other, self)

    def __lt__(self, other: Value) -> "Expression":
        return call("less", self, other)

    def __le__(self, other: Value) -> "Expression":
        return call("less_equal", self, other)

    def __gt__(self, other: Value) -> "Expression":
        return call("less", other, self)

    def __ge__(self, other: Value) -> "Expression":
        return call("less_equal", other, self)


@dataclass(frozen=True)
class Number(Expression):
    """A float constant, rounded to the type of the operands where it is used."""

    value: float

    @property
    def kind(self) -> Kind:
        """Always `float`."""
        return "float"


@dataclass(frozen=True)
class Var(Expression):
    """A word by name: a variable or a parameter of a loop program, an argument of a kernel in a condition."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """A function of operands of these kinds: `meaning` computes it, in numpy or, for words, in Python.

    `c` is an operator of C between the operands, the name of a function, or a text with the operands in braces; empty
    where generated code has no such function. `header` declares it. A `variadic` function takes two operands or more,
    from left to right. Of a `lazy` function, which computes only some of them, the meaning makes a thunk of thunks.

    The work is one element operation, or that of so many `transcendentals`; `rounds` says that float32 rounds.
    """

    name: str
    operands: tuple[Kind, ...]
    kind: Kind
    meaning: Callable[..., Any]
    c: str = ""
    slope: Slope | None = None
    transcendentals: int = 0
    header: str = ""
    rounds: bool = False
    variadic: bool = False
    lazy: bool = False

    def __repr__(self) -> str:
        return self.name

    def takes(self, operands: Sequence[Value]) -> bool:
        """Whether the operands have the kinds that the function takes; a plain integer may be a float or a word."""
        kinds = self.operands[:1] * len(operands) if self.variadic else self.operands
        return len(operands) == len(kinds) and all(
            x.kind == kind if isinstance(x, Expression) else kind == "float" or (kind == "word" and isinstance(x, int))
            for x, kind in zip(operands, kinds, strict=False)
        )


@dataclass(frozen=True)
class Call(Expression):
    """A function of further expressions; `call` makes it."""

    function: Function
    operands: tuple[Expr, ...]

    @property
    def kind(self) -> Kind:
        """The kind of the function's result."""
        return self.function.kind

    @property
    def nodes(self) -> tuple[Expression, ...]:
        """The operands that are no plain words: all those of a formula."""
        return tuple(x for x in self.operands if isinstance(x, Expression))


FUNCTIONS: dict[str, list[Function]] = {}
"""The functions of a name, each for operands of other kinds; `functions.py` declares them."""


def call(name: str, *operands: Value) -> Call:
    """A call; InternalError where operands are too many, too few, or of other kinds than a function of the name takes.

    Constants of words are not folded; the functions of `words.py` do that.
    """
    for function in FUNCTIONS[name]:
        if function.takes(operands):
            is_float = "float" in function.operands
            arguments = (x if isinstance(x, Expression) else Number(float(x)) if is_float else int(x) for x in operands)
            return Call(function, tuple(arguments))
    taken = " or ".join(", ".join(function.operands) for function in FUNCTIONS[name])
    found = ", ".join(x.kind if isinstance(x, Expression) else repr(x) for x in operands)
    raise InternalError(f"{name} takes {taken}", [("found", found or "nothing")])


def distinct(*trees: Tree) -> tuple[Tree, ...]:
    """All nodes of the trees, each once, operands before what is computed from them."""
    seen: dict[Tree, None] = {}
    waiting = [(tree, False) for tree in reversed(trees)]
    while waiting:
        tree, ready = waiting.pop()
        if ready:
            seen.setdefault(tree)
        elif tree not in seen:
            waiting.append((tree, True))
            waiting += [(child, False) for child in reversed(list(tree.children()))]
    return tuple(seen)


def calls(*trees: Tree) -> list[Call]:
    """The calls of the trees, each once, operands before what is computed from them."""
    return [tree for tree in distinct(*trees) if isinstance(tree, Call)]


def replaced(node: Expression, old: Expression, new: Expression) -> Expression:
    """The expression with each occurrence of a part replaced."""

    def change(tree: Tree) -> Tree:
        return new if tree == old else tree.mapped(change)

    return new if node == old else node.mapped(change)


def variables(trees: "Tree | int | tuple[Tree | int, ...]") -> set[str]:
    """Names of all variables in the trees."""
    names: set[str] = set()
    for tree in trees if isinstance(trees, tuple) else (trees,):
        if isinstance(tree, Tree):
            names |= {node.name for node in tree.walk() if isinstance(node, Var)}
    return names
