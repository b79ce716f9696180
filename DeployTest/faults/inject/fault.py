"""Faults of a program: one or two changes at places of the plan, and the classes that propose them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import Program


class Point(IntEnum):
    """Point of a program at which an action applies: inject_point_t of inject.h."""

    STEP, MOVE, WAIT, CALL, STORE, GRAPH, READ, WRITE, LOSS, TABLES = range(10)


class Op(IntEnum):
    """The kind of the action: inject_op_t of inject.h."""

    CHANGE, DROP, TWICE, TWICE_WAITED, TURN, LATE, OTHER, NUMBER, NEXT, BEFORE = range(10)
    KERNEL, POINTER, PLACE, EXCHANGE, ADD, SET, SCALE, INVERT, EXTRA = range(10, 19)


EVERY = -1
"""As an ordinal: all transfers, calls or passes."""


@dataclass(frozen=True)
class Action:
    """One change. `ordinal` counts within each execution of the step, or passes; `values` are the operation's."""

    point: Point
    op: Op
    step: int = 0
    region: int = 0
    direction: int = 0
    ordinal: int = 0
    values: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The thirteen numbers that the layer reads."""
        values = (*self.values, *[0] * (7 - len(self.values)))
        return " ".join(
            str(int(n)) for n in (self.point, self.step, self.region, self.direction, self.ordinal, self.op, *values)
        )


@dataclass(frozen=True)
class Fault:
    """A fault of a class: the step and operand it is about (-1 and empty where there is none), and where it acts."""

    kind: str
    step: int
    arg: str
    place: str
    actions: tuple[Action, ...]
    given: str = ""

    @property
    def text(self) -> str:
        """The value of DEPLOYER_FAULT: the text `given` on the command line, or else the actions."""
        return self.given or "; ".join(a.text for a in self.actions)


Sites = Iterator[tuple[int, str, str, tuple[Action, ...]]]
"""Step, operand, place in words, actions."""


@dataclass(frozen=True)
class FaultClass:
    """A kind of fault, its group, and all its sites in a program."""

    group: str
    kind: str
    propose: Callable[["Program"], Sites]

    def faults(self, program: "Program") -> Iterator[Fault]:
        """Every fault of the class in a program."""
        for step, arg, place, actions in self.propose(program):
            yield Fault(self.kind, step, arg, place, actions)


CLASSES: dict[str, FaultClass] = {}


def fault_class(group: str, kind: str) -> Callable[[Callable[["Program"], Sites]], Callable[["Program"], Sites]]:
    """Register a class under its name; a second one of that name is an error."""

    def register(propose: Callable[["Program"], Sites]) -> Callable[["Program"], Sites]:
        if kind in CLASSES:
            raise ValueError(f"fault class {kind!r} is there already")
        CLASSES[kind] = FaultClass(group, kind, propose)
        return propose

    return register
