"""A step as a program: loops, transfers, waits and kernel calls as one frozen tree, which several readers walk.

Code generation prints it, the timeline runs it on a clock, sharing compares it. Nothing here knows of operands: a
transfer may be started in one place and waited for in any later one, a loop may hold several calls and loops, and
sizes are bytes, whatever the elements are.
"""

from dataclasses import dataclass
from typing import Literal

from deployer.core.operator import Kernel
from deployer.planning.expr import Expr, Node, Tree, Var

Way = Literal["in", "out"]


@dataclass(frozen=True)
class Ticket(Node):
    """What a transfer, towards the kernels or away, is waited for by; one of several under a name has an index."""

    name: str
    way: Way
    index: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Transfer(Node):
    """A transfer over a hop, towards the kernels or away: bytes per run, then (count, bytes between) per level.

    Its value is the ticket.
    """

    way: Way
    hop: int
    target: Expr
    source: Expr
    sizes: tuple[Expr, ...]


@dataclass(frozen=True)
class Done(Node):
    """The ticket of nothing: no waiting."""


@dataclass(frozen=True)
class Table(Node):
    """The argument table of a step's kernel."""

    step: int


class Statement(Tree):
    """What is done."""


@dataclass(frozen=True)
class Block(Statement):
    """Statements that belong together: the inside of a loop around what it feeds."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Declare(Statement):
    """Variables and their first values."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Tickets(Statement):
    """Several tickets under each name, all of nothing at first."""

    names: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Arguments(Statement):
    """The argument table by a short name, for assignments."""

    kernel: str
    table: Table


@dataclass(frozen=True)
class Let(Statement):
    """A value with a name."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Set(Statement):
    """A variable's new value."""

    variable: Var
    value: Expr


@dataclass(frozen=True)
class Increase(Statement):
    """A variable goes up."""

    variable: Var
    by: Expr


@dataclass(frozen=True)
class Rotate(Statement):
    """The number of a slot goes on to the next of several, from the last to 0."""

    variable: Var
    slots: int


@dataclass(frozen=True)
class Start(Statement):
    """Start a transfer and keep its ticket; a ticket without an index is one that the same tile waits for."""

    ticket: Ticket
    transfer: Expr


@dataclass(frozen=True)
class Wait(Statement):
    """Wait for the transfer of a ticket, or start a transfer and wait for it at once."""

    awaited: Ticket | Transfer


@dataclass(frozen=True)
class Assign(Statement):
    """An argument of the next call."""

    argument: str
    value: Expr


@dataclass(frozen=True)
class Call(Statement):
    """The kernel, on all cores."""

    kernel: str
    table: Table | Var


@dataclass(frozen=True)
class If(Statement):
    """Statements under a condition."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop(Statement):
    """Statements for a counter from 0 up to a count.

    With `ahead` the counter goes up to the count itself: those statements run a turn ahead of the body, which has
    nothing to do at the first turn.
    """

    counter: Var
    count: Expr
    ahead: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class LoopProgram:
    """A step: its number, a title for people, the kernel, the storage of each operand by the kernel's name for it,
    arguments that never change, and what is done.
    """

    step: int
    title: str
    kernel: Kernel
    storages: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, Expr], ...]
    body: Block
