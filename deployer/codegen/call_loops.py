"""Calls of a graph's steps in C: where a sequence of them repeats, as that of equal layers does, it is a loop."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.codegen.c_text import TableAddress, TileView, wrapped
from deployer.core.safe_text import code
from deployer.expressions.tree import Expression

COUNTER = "i"
"""The variable of a loop over calls."""
LEAST_SAVED = 4
"""Calls that a loop saves at least: fewer are easier to read one after another."""


@dataclass(frozen=True)
class StepCall:
    """The call of a step's function, with the step's number (if `numbered`), its table, and other arguments.

    Of a function that several steps share, `names` are the parameters for these, and `values` those that are addresses.
    A `macro` calls the function: it takes the number of the table.
    """

    function: str
    step: int
    numbered: bool
    table: TableAddress | None
    arguments: tuple[str, ...]
    names: tuple[str, ...] = ()
    values: tuple[Expression | None, ...] = ()
    macro: str = ""

    def text(self, second: "StepCall | None" = None) -> str:
        """The call as C; in a loop whose second iteration calls `second`, in terms of the counter."""
        words = [advancing(self.step, second.step if second else self.step)] if self.numbered else []
        if self.table:
            last = second.table if second and second.table else self.table
            place = advancing(self.table.index, last.index)
            words.append(place if self.macro else f"&{self.table.array}[{place}]")
        return f"{self.macro or self.function}({', '.join((*words, *self.arguments))});"


@dataclass(frozen=True)
class CalledStep:
    """A step as its graph runs it: the call, and around it what the graph does; `told` says that it tells the HAL."""

    call: StepCall
    told: bool
    before: tuple[TileView, ...] = ()
    behind: tuple[TileView, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for steps that one loop may run: all but the numbers of step and table."""
        call = self.call
        array = call.table.array if call.table else ""
        return (
            call.macro or call.function,
            call.numbered,
            array,
            call.arguments,
            self.told,
            repr((self.before, self.behind)),
        )

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers that advance in a loop."""
        return self.call.step, self.call.table.index if self.call.table else 0

    def views(self, second: "CalledStep | None" = None) -> Iterator[TileView]:
        """The statements; in a loop whose second iteration runs `second`, in terms of the counter."""
        if self.told:
            step = advancing(self.call.step, second.call.step if second else self.call.step)
            yield TileView("c_begin", {"step": code(step)})
        yield from self.before
        yield TileView("c_run", {"call": code(folded(self.call.text(second.call if second else None)))})
        yield from self.behind


def advancing(first: int, second: int) -> str:
    """A number that is `first` in the first iteration of a loop and `second` in the second."""
    if first == second:
        return str(first)
    factor = COUNTER if second == first + 1 else f"{second - first} * {COUNTER}"
    return f"{first} + {factor}" if first else factor


def calls_views(steps: Sequence[CalledStep]) -> tuple[TileView, ...]:
    """The statements that run the steps, the longest repetitions as loops."""
    numbers: dict[Hashable, int] = {}
    keys = np.array([numbers.setdefault(step.key, len(numbers)) for step in steps])
    return tuple(_views(steps, keys))


def _views(steps: Sequence[CalledStep], keys: np.ndarray) -> Iterator[TileView]:
    begin, period, count = _repetition(steps, keys)
    if (count - 1) * period < LEAST_SAVED:
        for step in steps:
            yield from step.views()
        return
    end = begin + period * count
    yield from _views(steps[:begin], keys[:begin])
    body = tuple(v for at in range(begin, begin + period) for v in steps[at].views(steps[at + period]))
    yield TileView("c_loop_stmt", {"counter": code(COUNTER), "count": code(str(count))}, body=body)
    yield from _views(steps[end:], keys[end:])


def _repetition(steps: Sequence[CalledStep], keys: np.ndarray) -> tuple[int, int, int]:
    """The repetition that saves most calls, of several the shortest: where it begins, its period, and how often."""
    best, most = (0, 0, 0), 0
    for period in range(1, len(keys) // 2 + 1):
        differ = np.flatnonzero(keys[:-period] != keys[period:])
        begins = np.concatenate(([0], differ + 1))
        lengths = np.concatenate((differ, [len(keys) - period])) - begins
        begin = int(begins[lengths.argmax()])
        count = _even(steps, begin, period, 1 + int(lengths.max()) // period)
        if (count - 1) * period > most:
            best, most = (begin, period, count), (count - 1) * period
    return best


def _even(steps: Sequence[CalledStep], begin: int, period: int, count: int) -> int:
    """The iterations, of `count`, in which all numbers advance by as much as from the first to the second."""
    if count < 2:
        return count
    numbers = np.array([step.numbers for step in steps[begin : begin + period * count]]).reshape(count, -1)
    advances = np.diff(numbers, axis=0)
    if (advances[0] < 0).any():  # the counter has no sign
        return 1
    uneven = np.flatnonzero((advances != advances[0]).any(axis=1))
    return int(uneven[0]) + 1 if uneven.size else count


def folded(text: str) -> str:
    """A list of parameters or a call, over several lines where it is long."""
    return "\n        ".join(wrapped(text.split(", ")))
