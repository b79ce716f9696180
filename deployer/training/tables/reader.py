"""Samples out of a table of text: one rule for headings, for the column of the target, and for every cell."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.core.safe_text import listed
from deployer.training.tables.taken import Taken
from deployer.training.tables.target import TARGETS, TargetColumn
from deployer.training.tables.text import (
    DELIMITERS,
    LIMITS,
    SUFFIXES,
    Record,
    TablePlace,
    TableText,
    cell_fault,
    is_number,
    numbers_of,
    open_table,
)

OPTION = "--target-column"
SHOWN = 30
"""Headings that a message lists."""


@dataclass(frozen=True)
class Request:
    """The way in which a source is to be read: the `column` of the target, if the caller names one.

    `classes` are the names of labels from 0 on, where they are known. `like` is what was taken from the samples that
    are trained, where others are read for validation: these have the same columns, and a target of the same kind.
    """

    column: str = ""
    classes: tuple[str, ...] = ()
    like: Taken | None = None


@dataclass(frozen=True)
class Table:
    """The columns of a table by the names of data inputs, what they were in the file, and the names of classes."""

    columns: dict[str, Array]
    taken: Taken
    classes: tuple[str, ...]


def is_table(source: object) -> bool:
    """Whether a source of samples is the path of a table."""
    return isinstance(source, str | Path) and Path(source).suffix.lower() in SUFFIXES


def check_column(column: str, *sources: object) -> None:
    """OptionProblem for the name of a column where none of the sources is a table."""
    if column and not any(map(is_table, sources)):
        raise OptionProblem(f"{OPTION} has no effect: no data are a table", hint=f"leave it out, or a {SUFFIXES[0]}")


def read_table(path: Path, types: Mapping[str, TensorType], request: Request) -> Table:
    """The samples of a table for the only input, and the target where `types` has a second one.

    Its first row is one of headings where none of its cells is a number. The target is the column that the request
    names, else the only one of TARGETS, else, without headings, the last one; the other columns are the input. Each
    cell is a decimal number of its input's type. A target of integers may hold words in all rows: names of classes,
    which are those of the request, or else numbered in sorted order.
    Raises FileProblem and DatasetMismatch by row and column, OptionProblem for a column that is not there.
    """
    names = list(types)
    if len(names) > 2:
        facts = [("inputs", ", ".join(names[:-1]))]
        raise DatasetMismatch(f"{path} is one array, and the model has several inputs", facts, "an .npz with all")
    return _Reader(path, types, request, open_table(path)).read()


@dataclass(frozen=True)
class _Columns:
    """The columns of a table: headings, or numbers from 1 on; the place of the target, if any, and of the inputs."""

    names: tuple[str, ...]
    headed: bool
    target: int | None
    inputs: tuple[int, ...]

    def label(self, place: int) -> str:
        return f"column {self.names[place]!r}" if self.headed else f"column {self.names[place]}"


@dataclass(frozen=True)
class _Reader:
    """A table on its way to numbers."""

    path: Path
    types: Mapping[str, TensorType]
    request: Request
    text: TableText

    def read(self) -> Table:
        records = self.text.records()
        first = next(records)
        headed = not any(map(is_number, first.cells))
        columns = self._columns(first, headed)
        kind = next(iter(self.types.values())).dtype
        rows, lines, targets = array("d"), array("q"), list[str]()
        for record in records if headed else chain([first], records):
            lines.append(record.line)
            self._check_width(record, len(lines), columns)
            cells = [record.cells[place] for place in columns.inputs]
            numbers = numbers_of(cells, kind == "int32", LIMITS[kind])
            if numbers is None:
                raise self._cell(record, len(lines), columns, kind)
            rows.extend(numbers)
            targets += [] if columns.target is None else [record.cells[columns.target]]
        if not lines:
            facts = [("headings", listed(list(map(repr, columns.names)), SHOWN))]
            raise FileProblem(f"{self.path} has only a header row", facts, "a row per sample below it")
        return self._table(columns, np.frombuffer(rows).reshape(len(lines), -1), targets, lines)

    def _table(self, columns: _Columns, inputs: Array, targets: Sequence[str], lines: Sequence[int]) -> Table:
        names, words, classes = list(self.types), False, self.request.classes
        numbers = inputs.astype(np.int64) if self.types[names[0]].dtype == "int32" else inputs
        result = {names[0]: numbers}
        if columns.target is not None:
            label, dtype = columns.label(columns.target), self.types[names[1]].dtype
            column = TargetColumn(self.path, label, targets, lines, columns.headed)
            words = dtype == "int32" and column.has_words(self.request.like)
            classes = column.classes(classes, self.request.like) if words else classes
            result[names[1]] = column.numbered(classes) if words else column.numbers(dtype)
        inputs_of = tuple(columns.names[place] for place in columns.inputs)
        target = "" if columns.target is None else columns.names[columns.target]
        return Table(result, Taken("table", len(lines), inputs_of, target, columns.headed, words), classes)

    def _columns(self, first: Record, headed: bool) -> _Columns:
        """The columns of a table by its first row."""
        like, width = self.request.like, len(first.cells)
        if headed:
            self._check_headings(first)
        if width < len(self.types):
            facts = [("line", repr(first.cells[0][:100])), ("separators", ", ".join(DELIMITERS.values()))]
            raise FileProblem(f"{self.path} has one column", facts, "a column per number, and one for the target")
        names = first.cells if headed else tuple(str(1 + place) for place in range(width))
        target = self._target(first, headed) if len(self.types) > 1 else None
        if target is None and self.request.column:
            raise OptionProblem(f"{OPTION} has no effect: the model's own output is the loss", hint="leave it out")
        inputs = tuple(place for place in range(width) if place != target)
        if like is not None and like.kind == "table":
            inputs = self._as_trained(like, _Columns(names, headed, target, inputs))
        return _Columns(names, headed, target, inputs)

    def _as_trained(self, like: Taken, found: _Columns) -> tuple[int, ...]:
        """The places of the inputs in the order of the table that is trained."""
        names = [found.names[place] for place in found.inputs]
        if like.headings != found.headed or sorted(names) != sorted(like.inputs):
            facts = [("trained", _shown(like.inputs, like.headings)), ("here", _shown(names, found.headed))]
            cause = f"{self.path} has other input columns than the table that is trained"
            raise DatasetMismatch(cause, facts, "the same columns in both, with headings or without")
        place_of = {name: place for place, name in enumerate(found.names)}
        return tuple(place_of[name] for name in like.inputs)

    def _check_headings(self, first: Record) -> None:
        """FileProblem for a heading that is empty, or there twice."""
        facts = [("headings", listed(list(map(repr, first.cells)), SHOWN))]
        place = f"{self.path}, line {first.line}"
        if "" in first.cells:
            number = 1 + first.cells.index("")
            hint = "a heading for each column, or none at all; in pandas to_csv(..., index=False)"
            raise FileProblem(f"{place}: column {number} has no heading", facts, hint)
        twice = next((name for name, count in Counter(first.cells).items() if count > 1), "")
        if twice:
            raise FileProblem(f"{place}: two columns have the heading {twice!r}", facts, "different headings")

    def _target(self, first: Record, headed: bool) -> int:
        """The place of the target's column."""
        column, headings = self.request.column, first.cells
        facts = [("headings", listed(list(map(repr, headings)), SHOWN))]
        if not headed:
            if column:
                number = next(cell for cell in headings if is_number(cell))
                facts = [("line", str(first.line)), ("it holds", f"{number!r}, which is a number")]
                hint = "a first row of headings, none of which is a number"
                raise OptionProblem(f"{self.path} has no headings, and {OPTION} {column!r} names one", facts, hint)
            return len(headings) - 1
        if column:
            if column.strip() not in headings:
                raise OptionProblem(f"{self.path} has no column {column!r}", facts, f"{OPTION} with one of these")
            return headings.index(column.strip())
        known = [place for place, name in enumerate(headings) if name.lower() in TARGETS]
        if len(known) != 1:
            several = ", ".join(repr(headings[place]) for place in known)
            cause = f"{several} may each be the target" if known else f"none is called {', '.join(TARGETS)}"
            cause = f"{self.path}: the target column is ambiguous: {cause}"
            raise DatasetMismatch(cause, facts, f"{OPTION} NAME (target_column in Python), with one of the headings")
        return known[0]

    def _check_width(self, record: Record, row: int, columns: _Columns) -> None:
        width = len(columns.names)
        if len(record.cells) != width:
            facts = [("columns", f"{width}, by the first row"), ("row", listed(list(map(repr, record.cells)), SHOWN))]
            facts += [("separator", DELIMITERS[self.text.delimiter])]
            place = f"{self.path}, line {record.line} (row {row})"
            raise FileProblem(f"{place} has {len(record.cells)} cells", facts, "as many cells in each row")

    def _cell(self, record: Record, row: int, columns: _Columns, kind: str) -> FileProblem:
        faults = ((place, cell_fault(record.cells[place], kind == "int32", LIMITS[kind])) for place in columns.inputs)
        place, fault = next((place, fault) for place, fault in faults if fault)
        facts = []
        if row == 1 and not columns.headed:
            number = next(cell for cell in record.cells if is_number(cell))
            facts = [("read as", f"a row of numbers and no headings, since {number!r} is a number")]
        where = TablePlace(self.path, record.line, row, columns.label(place))
        return where.error(record.cells[place], fault, facts)


def _shown(names: Sequence[str], headed: bool) -> str:
    return listed(list(map(repr, names)), SHOWN) if headed else f"{len(names)}, without headings"
