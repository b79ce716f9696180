"""Loop programs as C: expressions become text, statements become views, which templates print by one form per kind."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from deployer.codegen.c_names import Names
from deployer.codegen.kernel_headers import C_TYPES
from deployer.core.safe_text import CText, code, identifier
from deployer.expressions.c_text import c_text
from deployer.expressions.tree import Expr, Expression, Number, Var
from deployer.loops.leaves import Element, HomeExpr, SignedVar, SizeExpr, SlotExpr
from deployer.loops.loop_program import (
    ArgumentTable,
    CallEachStmt,
    Declare,
    Done,
    Group,
    GroupSize,
    HeldArgument,
    IfStmt,
    LoopStmt,
    Rotate,
    StartStmt,
    Statement,
    Ticket,
    TicketArray,
    Tickets,
    Transfer,
)

WIDTH = 106
Printable = CText | tuple[CText, ...]


@dataclass(frozen=True)
class TileView:
    """A statement for templates: the name of the template definition that prints it, and its texts by field name.

    `body` are the inner statements, and `ahead` those of a loop that run an iteration ahead of the body.
    """

    definition: str
    texts: Mapping[str, Printable]
    ahead: tuple["TileView", ...] = ()
    body: tuple["TileView", ...] = ()

    def __getattr__(self, name: str) -> Printable:
        """A text by its name."""
        try:
            return self.texts[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True)
class TableAddress:
    """The place of a step's argument table in C: an array and an index."""

    array: str
    index: int

    @property
    def text(self) -> str:
        """The address of the table as C."""
        return f"&{self.array}[{self.index}]"


class Printer:
    """C text of expressions and statements, with the addresses of a plan by their names.

    `types` are the element types of homes whose names are pointers: a kernel that moves words has pointers of its own.
    `tables` are the places of steps' argument tables.
    """

    def __init__(
        self,
        names: Names,
        types: Mapping[str, str] = MappingProxyType({}),
        tables: Mapping[int, TableAddress] = MappingProxyType({}),
    ) -> None:
        self.names = names
        self.types = types
        self.tables = tables

    def text(self, value: Expr) -> str:
        """An expression as C."""
        return c_text(value, self._leaf)

    def begin(self, address: Expr) -> str:
        """Begin of a transfer as C."""
        return self.text(address)

    def _leaf(self, value: Expression) -> str | None:
        """A leaf as C; None for what is none."""
        t = self.text
        match value:
            case SizeExpr(number):
                return str(number)
            case SignedVar(name):
                return f"(int32_t){name}"
            case Var(name):
                return name
            case Number(number):
                return float_literal(number)
            case Element(array, index):
                return f"{array}[{t(index)}]"
            case HomeExpr(storage, dtype):
                cast = f"({C_TYPES[dtype]} *)" if self.types.get(storage, dtype) != dtype else ""
                return cast + self.names.home(storage)
            case SlotExpr(step, arg, staged):
                return self.names.slot(step, arg, staged)
            case ArgumentTable(step):
                return self.tables[step].text
            case HeldArgument(argument, const):
                return f"(void *)args->{argument}" if const else f"args->{argument}"
            case Group(step):
                return f"&{group_name(step)}"
            case GroupSize(step):
                return f"sizeof {group_name(step)}"
            case Done():
                return "HAL_DONE"
            case Ticket(name, _, index):
                return name + "".join(f"[{t(i)}]" for i in index)
            case Transfer(direction, hop, target, source, sizes):
                words = [str(hop), self.begin(target), self.begin(source), *map(t, sizes)]
                return f"hal_dma_{direction}_{(1 + len(sizes)) // 2}d({', '.join(words)})"
        return None

    def view(self, statement: Statement) -> TileView:
        """The view of a statement: each field as text, inner statements as views."""
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(statement).__name__).lower()
        texts: dict[str, Printable] = {}
        inside: dict[str, tuple[TileView, ...]] = {}
        for field in fields(statement):
            value = getattr(statement, field.name)
            if isinstance(statement, Tickets):
                continue
            if field.name in ("ahead", "body"):
                inside[field.name] = tuple(map(self.view, value))
            elif isinstance(value, tuple):
                texts[field.name] = tuple(self._printable(x) for x in value)
            else:
                texts[field.name] = self._printable(value)
        match statement:
            case IfStmt(body=(_,)):
                kind = "if_line"
            case LoopStmt(ahead=(_, *_)):
                kind = "loop_ahead"
            case StartStmt(Ticket(index=())):
                kind = "start_local"
            case Rotate(slots=slots):
                kind = "rotate" if slots > 2 else "rotate_two"
                texts["last"] = code(str(slots - 1))
            case CallEachStmt(functions=(_, _, *_) as functions):
                kind = "call_each_own"
                texts["lines"] = wrapped(functions)
            case Declare(names, values):
                texts["lines"] = declared([f"{n} = {self.text(v)}" for n, v in zip(names, values, strict=True)])
            case Tickets(arrays):
                texts["lines"] = declared(list(map(self._tickets, arrays)))
        return TileView(f"c_{kind}", texts, **inside)

    def _tickets(self, array: TicketArray) -> str:
        """The declarator of an array of tickets; zeros, which stand for HAL_DONE, need not be said but once."""
        first = list(map(self.text, array.first))
        while len(first) > 1 and first[-1] == self.text(Done()):
            first.pop()
        values = ", ".join(first)
        if len(array.first) == 1:
            return f"{array.name}[{array.slots}] = {{{values}}}"
        lengths = [n for n in (array.slots, len(array.first)) if n > 1 or array.slots > 1]
        text = f"{array.name}{''.join(f'[{n}]' for n in lengths)}"
        return f"{text} = {{{values}}}" if array.slots == 1 else f"{text} = {{{{{values}}}}}"

    def _printable(self, value: Expr | str) -> CText:
        return identifier(value) if isinstance(value, str) else code(self.text(value))


def group_name(step: int) -> str:
    """The C name of a group's argument tables, by its first step."""
    return f"tables_{step:02d}"


def wrapped(items: Sequence[str], width: int = WIDTH) -> tuple[CText, ...]:
    """Items joined by commas into lines of about `width` characters, none broken inside."""
    glued = ", ".join(item.replace(" ", "\0") for item in items)
    lines = textwrap.wrap(glued, width, break_long_words=False)
    return tuple(code(line.replace("\0", " ")) for line in lines)


def declared(items: Sequence[str]) -> tuple[CText, ...]:
    """Declarators of one type in lines of about WIDTH characters; each line is a declaration."""
    return tuple(code(line.removesuffix(",")) for line in wrapped(items))


def float_literal(value: float) -> str:
    """The float32 nearest to the value as a C literal: hexadecimal with the decimal in a comment, unless integral."""
    nearest = float(np.float32(value))
    if math.isinf(nearest):
        return "__builtin_inff()" if nearest > 0 else "-__builtin_inff()"
    if nearest == int(nearest) and abs(nearest) < 1e6:
        return f"{nearest:.1f}f"
    digits, power = nearest.hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{power}f /* {nearest:.9g} */"


def decimal_literal(value: float) -> str:
    """The float32 nearest to a finite value as a C literal; nine digits have all its bits."""
    text = f"{value:.9g}"
    return f"{text}f" if {".", "e"} & set(text) else f"{text}.0f"
