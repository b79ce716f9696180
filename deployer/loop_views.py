"""The render model of a step's loops: the statements of each phase, which templates print in order."""

from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True)
class CallView:
    """The kernel call of a tile: assignments of what changes from tile to tile, and the call."""

    form: ClassVar[str] = "call"
    kernel: str
    table: str
    arguments: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All its lines."""
        return self.arguments


@dataclass(frozen=True)
class LoopView:
    """A loop of a step, over its tiles or its stage's, as the statements of each phase around a body.

    `form` is `once` for a single tile, else `single`, `double`, or `storing` where nothing comes in: the phases a form
    has are those its template prints.
    """

    form: str
    counter: str
    tiles: str
    variables: tuple[str, ...]
    fetch: tuple[str, ...]
    arrive: tuple[str, ...]
    leave: tuple[str, ...]
    settle: tuple[str, ...]
    turn: tuple[str, ...]
    advance: tuple[str, ...]
    fetch_advance: tuple[str, ...]
    lengths: tuple[str, ...]
    fetch_lengths: tuple[str, ...]
    finish: tuple[str, ...]
    body: "LoopView | CallView"

    @property
    def texts(self) -> tuple[str, ...]:
        """All its lines and its body's."""
        own = (value for value in (getattr(self, field.name) for field in fields(self)) if isinstance(value, tuple))
        return (self.tiles, *(line for part in own for line in part), *self.body.texts)


@dataclass(frozen=True)
class StepView:
    """One step as C: its argument table, its loop, and each address the loop may use with a name and type for it."""

    index: int
    title: str
    kernel: str
    table: str
    fields: tuple[str, ...]
    loop: LoopView
    addresses: tuple[tuple[str, str, str], ...]
