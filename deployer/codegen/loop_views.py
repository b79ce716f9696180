"""The render model of a step's loops: the statements of each phase, which templates print in order.

A size in a statement carries a name, `9216@x_bytes`: where steps that differ in it share a function, it is a parameter
of that name. `deployer.codegen.shared_functions` resolves all of them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from deployer.codegen.expr import Expr
from deployer.core.safe_text import code, identifier

SIZE = re.compile(r"\b(\d+)@(\w+)", re.ASCII)


def sized(value: Expr, name: str) -> str:
    """The expression with its constant factor named, where it has one."""
    return re.sub(r"(?:^| \* )\d+$", rf"\g<0>@{name}", str(value))


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

    def mapped(self, change: Callable[[str], str]) -> "CallView":
        """The same with all its texts changed."""
        return replace(self, table=change(self.table), arguments=tuple(map(change, self.arguments)))

    def as_code(self) -> "CallView":
        """The same as C that templates print."""
        return replace(self.mapped(code), kernel=identifier(self.kernel))


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

    def mapped(self, change: Callable[[str], str]) -> "LoopView":
        """The same with all its texts changed in their order, its body's last."""
        changed: dict[str, Any] = {"tiles": change(self.tiles)}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                changed[field.name] = tuple(map(change, value))
        return replace(self, **changed, body=self.body.mapped(change))

    def as_code(self) -> "LoopView":
        """The same as C that templates print; every size has its place by now."""
        return replace(self.mapped(code), counter=identifier(self.counter), body=self.body.as_code())


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
