"""Fault classes of argument tables that a group's first step fetches for all of its steps."""

from collections.abc import Iterator

from .fault import Action, Op, Point, Sites, fault_class
from .program import Program

FIELD = 4
"""Bytes by which an address or a length is off: a scalar argument."""


def fetches(program: Program) -> Iterator[tuple[int, int]]:
    """The first step of each group of tables, and the bytes that it fetches."""
    for step in program.plan.groups:
        yield from ((step, size) for size in program.census.tables(step))


def site(step: int, size: int, note: str, op: Op, *values: int) -> tuple[int, str, str, tuple[Action, ...]]:
    """A site at the fetch of a step."""
    return step, "", f"the fetch of {size} B of argument tables{note}", (Action(Point.TABLES, op, step, values=values),)


def of_each(kind: str, op: Op, *values: int) -> None:
    """Register a class with one site for each fetch."""

    @fault_class("argument tables", kind)
    def propose(program: Program) -> Sites:
        for step, size in fetches(program):
            yield site(step, size, "", op, *values)


of_each("fetch left out", Op.DROP)
of_each("fetch doubled", Op.TWICE)
of_each("fetch after the first kernel call", Op.LATE)
of_each("fetch an argument longer", Op.CHANGE, 0, 0, FIELD)
of_each("fetch an argument shorter", Op.CHANGE, 0, 0, -FIELD)
of_each("fetched from an argument further on", Op.CHANGE, 0, FIELD)
of_each("fetched to an argument further on", Op.CHANGE, FIELD)


@fault_class("argument tables", "tables of the group before")
def tables_before(program: Program) -> Sites:
    """A fetch from where the group before had its tables; the first of all has none before it."""
    for step, size in list(fetches(program))[1:]:
        yield site(step, size, "", Op.BEFORE)


@fault_class("argument tables", "a bit of what was fetched")
def bit(program: Program) -> Sites:
    """One bit of each argument is the other."""
    for step, size in fetches(program):
        for at in range(0, size, FIELD):
            yield site(step, size, f": bit 2 of byte {at}", Op.INVERT, at, 2)
