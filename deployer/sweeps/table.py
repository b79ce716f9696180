"""The table of a sweep: a row for each run in the order of their numbers, and which of them no other one beats."""

import csv
import io
from collections.abc import Sequence

from deployer.sweeps.options import GOALS
from deployer.sweeps.samplers import Goal
from deployer.sweeps.sweep import SweptRow

ENDS = ("outcome", "cause")


def columns_of(rows: Sequence[SweptRow]) -> tuple[str, ...]:
    """The numbers that some run has, in the order in which reports have them."""
    return tuple(dict.fromkeys(name for row in rows for name in row.result.numbers))


def table_text(rows: Sequence[SweptRow]) -> str:
    """The table as CSV: number, digest, values, numbers and outcome of each run; the same for any number of workers."""
    names = tuple(dict.fromkeys(name for row in rows for name in row.run.values))
    columns = columns_of(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "digest", *names, *columns, *ENDS])
    for row in rows:
        numbers = [_shown(row.result.numbers.get(name)) for name in columns]
        values = [row.run.values.get(name, "") for name in names]
        writer.writerow([row.run.number, row.digest, *values, *numbers, row.result.outcome, row.result.cause])
    return text.getvalue()


def _shown(number: float | None) -> str:
    if number is None:
        return ""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def best_rows(rows: Sequence[SweptRow], goals: Sequence[Goal]) -> list[SweptRow]:
    """The runs that passed and that no other one equals or beats in every goal, the first of equals; by the goals."""
    found = dict[tuple[float, ...], SweptRow]()
    for row in rows:
        numbers = [row.result.numbers.get(column) for column, _ in goals]
        if row.result.outcome == "passed" and None not in numbers:
            signs = [1.0 if direction == GOALS[0] else -1.0 for _, direction in goals]
            found.setdefault(tuple(s * float(n or 0.0) for s, n in zip(signs, numbers, strict=True)), row)
    best = [p for p in found if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in found)]
    return [found[point] for point in sorted(best)]
