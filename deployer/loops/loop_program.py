"""A step as a program: loops, transfers, waits and kernel calls as one frozen tree, which several readers walk.

Code generation prints it, the timeline runs it on a clock, sharing compares it. Nothing here knows of operands: a
transfer may be started in one place and waited for in any later one, a loop may hold several calls and loops, and
sizes are bytes, whatever the elements are.
"""

from dataclasses import dataclass
from typing import Literal, TypeVar

from deployer.core.kernel import Kernel
from deployer.expressions.tree import Expr, Expression, Tree, Var

Direction = Literal["in", "out"]
T = TypeVar("T")


@dataclass(frozen=True)
class Ticket(Expression):
    """The handle to wait for a transfer towards the kernels ("in") or away; one of several of a name has an index.

    Of an array for slots and operands this has two parts, of which the first alone stands for the tickets of a slot.
    """

    name: str
    direction: Direction
    index: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Transfer(Expression):
    """A transfer over a hop, towards the kernels ("in") or away; its value is the ticket.

    `sizes` are the bytes per run, then for each level a count and the bytes from one repetition to the next.
    """

    direction: Direction
    hop: int
    target: Expr
    source: Expr
    sizes: tuple[Expr, ...]


@dataclass(frozen=True)
class Done(Expression):
    """The ticket of no transfer: a wait for it returns at once."""


@dataclass(frozen=True)
class ArgumentTable(Expression):
    """The argument table of a step's kernel."""

    step: int


@dataclass(frozen=True)
class HeldArgument(Expression):
    """The address that the argument table in use holds for a pointer argument of the kernel, to `const` or not."""

    argument: str
    const: bool


@dataclass(frozen=True)
class Group(Expression):
    """The constants that are the argument tables of a group of steps, by the number of its first step."""

    step: int


@dataclass(frozen=True)
class GroupSize(Expression):
    """The bytes of a group's tables: `bytes` by the plan, whose pointers may be shorter than the machine's."""

    step: int
    bytes: int


class Statement(Tree):
    """A statement of a loop program."""


@dataclass(frozen=True)
class Fetch(Statement):
    """Fetches the argument tables of a group of steps, and returns when they are there."""

    tables: Group
    size: GroupSize


@dataclass(frozen=True)
class Block(Statement):
    """A sequence of statements, such as the inner loop of a stage with its declarations."""

    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Declare(Statement):
    """Declares variables with their first values."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class TicketArray(Tree):
    """An array of tickets for each of several slots, or one; in it a ticket for each operand, or one.

    At first there are no transfers but for the `first` slot's tickets, of which there is one for each operand.
    """

    name: str
    slots: int
    first: tuple[Expr, ...]

    def index(self, slot: T, place: int) -> tuple[T | int, ...]:
        """The index of the ticket of a slot and an operand, by its place among the operands."""
        if len(self.first) == 1:
            return (slot,)
        return (place,) if self.slots == 1 else (slot, place)


@dataclass(frozen=True)
class Tickets(Statement):
    """Declares arrays of tickets."""

    arrays: tuple[TicketArray, ...]


@dataclass(frozen=True)
class Arguments(Statement):
    """Declares a short name for the argument table of the kernel, for assignments to its fields."""

    kernel: str
    table: ArgumentTable


@dataclass(frozen=True)
class Let(Statement):
    """Declares a constant with a value."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Set(Statement):
    """Assigns a value to a variable."""

    variable: Var
    value: Expr


@dataclass(frozen=True)
class Increase(Statement):
    """Adds a value to a variable."""

    variable: Var
    by: Expr


@dataclass(frozen=True)
class Rotate(Statement):
    """Advances the number of a slot to the next of several, from the last one to 0."""

    variable: Var
    slots: int


@dataclass(frozen=True)
class StartStmt(Statement):
    """Starts a transfer and stores its ticket; if the ticket has no index, the same tile waits for it."""

    ticket: Ticket
    transfer: Expr


@dataclass(frozen=True)
class Wait(Statement):
    """Waits for the transfer of a ticket, or starts a transfer and waits for it."""

    awaited: Ticket | Transfer


@dataclass(frozen=True)
class WaitAll(Statement):
    """Waits for all of `count` tickets of an array, or of a part of it."""

    tickets: Ticket
    count: int


@dataclass(frozen=True)
class AssignStmt(Statement):
    """Assigns an argument of the next kernel call."""

    argument: str
    value: Expr


@dataclass(frozen=True)
class CallStmt(Statement):
    """Calls the kernel on all cores, by a function of it."""

    function: str
    table: ArgumentTable | Var


@dataclass(frozen=True)
class AssignEachStmt(Statement):
    """Runs assignments for each of `count` argument tables of the kernel, one behind the other from `table` on."""

    kernel: str
    table: ArgumentTable
    count: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class CallEachStmt(Statement):
    """Calls a function of the kernel on all cores for each of `count` argument tables, one behind the other.

    The tables, from `table` on, are those of as many steps from `step` on, and no core waits for another between two
    of them. All call the only one of `functions`, or each step calls its own.
    """

    step: int
    functions: tuple[str, ...]
    kernel: str
    table: ArgumentTable
    count: int


@dataclass(frozen=True)
class IfStmt(Statement):
    """Runs statements under a condition."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class LoopStmt(Statement):
    """Runs statements for each value of a counter from 0 to below a count.

    With `ahead` there is one more iteration: those statements run an iteration ahead of the body, so they are left out
    in the last iteration and the body in the first.
    """

    counter: Var
    count: Expr
    ahead: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class LoopProgram:
    """The program of a step: its number, operator and name, its kernel, and the statements in `body`.

    Its argument table is that of the step `table`, itself or one that it shares with. `storages` are pairs of a
    kernel's pointer argument and the storage behind it; `arguments` are what the table holds from the start.

    In a graph with cross-step transfers `starts` are the first fetches, which the graph makes and whose tickets the
    body reads, and `lasts` the names and numbers of the tickets that the body leaves for the graph to wait for.
    """

    step: int
    operator: str
    name: str
    kernel: Kernel
    table: int
    storages: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, Expr], ...]
    body: Block
    starts: tuple[StartStmt, ...] = ()
    lasts: tuple[tuple[str, int], ...] = ()

    @property
    def title(self) -> str:
        """Operator and name of the step, for people."""
        return f"{self.operator} {self.name}"
