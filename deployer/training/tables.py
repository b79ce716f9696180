"""Tables of samples: text files, their cells, the target column, and the report of what was taken."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.files.reading import check_file
from deployer.core.ir import TensorType
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array
from deployer.core.safe_text import listed

# Text of a table: its encoding, what separates its columns, its records, and which cells are numbers.

SUFFIXES = (".csv", ".tsv")
"""The suffixes of tables."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""Separators of columns, and their names."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A finite decimal number, plain or with an exponent."""
LIMITS = {"float32": float(np.finfo(np.float32).max), "int32": float(np.iinfo(np.int32).max)}
"""The largest numbers of element types."""
LONGEST_CELL = 100
"""Characters of a cell that a message shows."""
WIDE = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
"""Marks of encodings that are not read."""
_CHARACTERS = re.compile("[-+.0-9eE]*")
_QUOTED = re.compile('"[^"]*"')


def is_number(text: str) -> bool:
    """Whether a cell is a decimal number."""
    return NUMBER.fullmatch(text) is not None


def resembles_number(text: str) -> bool:
    """Whether a cell that is no decimal number is one elsewhere: 1_000, "1,5", 0x1F, nan, inf, digits of other scripts.

    Such a cell is no name of a class either.
    """
    readers: tuple[Callable[[str], object], ...] = (float, lambda t: int(t, 0))
    for read in readers:
        try:
            read(text.replace(",", ""))
        except ValueError:
            continue
        return True
    return False


@dataclass(frozen=True)
class Record:
    """A row of a table: its first line in the file, from 1 on, and its cells without outer spaces."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class TableText:
    """The records of a file that is a table; blank lines are none."""

    path: Path
    delimiter: str

    def records(self) -> Iterator[Record]:
        """Each record; FileProblem where quotes are not those of CSV (RFC 4180)."""
        lines: list[str] = []
        first = quotes = 0
        with _opened(self.path) as file:
            for number, line in enumerate(file, 1):
                first = first if lines else number
                lines.append(line)
                quotes += line.count('"')
                if quotes % 2:
                    continue
                text = "".join(lines)
                lines, quotes = [], 0
                if text.strip(" \n"):
                    yield Record(first, tuple(self._cells(text, first)))
        if lines:
            raise self._misquoted(first, "".join(lines))

    def _cells(self, text: str, line: int) -> Iterator[str]:
        fields = text.removesuffix("\n").split(self.delimiter)
        if '"' not in text:
            yield from map(str.strip, fields)
            return
        held: list[str] = []
        quotes = 0
        for field in fields:
            held.append(field)
            quotes += field.count('"')
            if quotes % 2 == 0:
                yield self._unquoted(self.delimiter.join(held).strip(), line)
                held = []

    def _unquoted(self, cell: str, line: int) -> str:
        if '"' not in cell:
            return cell
        inner = cell[1:-1].replace('""', "")
        if not (len(cell) > 1 and cell[0] == cell[-1] == '"') or '"' in inner:
            raise self._misquoted(line, cell)
        return cell[1:-1].replace('""', '"').strip()

    def _misquoted(self, line: int, text: str) -> FileProblem:
        facts = [("text", repr(text[:100]))]
        hint = 'quotes around a whole cell, and "" for one inside of it'
        return FileProblem(f"{self.path}, line {line}: a quote is not closed, or is inside a cell", facts, hint)


def open_table(path: Path) -> TableText:
    """The text of a file, whose first line says what separates columns: comma, semicolon or tab.

    FileProblem where it is missing, too large, empty, in another encoding than UTF-8, or its first line has several of
    these outside of quotes.
    """
    check_file(path, ARCHIVE_BYTES, f"the path of a {SUFFIXES[0]} file", "an .npz of the same numbers")
    _check_encoding(path)
    with _opened(path) as file:
        numbered = ((number, line) for number, line in enumerate(file, 1) if line.strip(" \n"))
        number, line = next(numbered, (0, ""))
    if not number:
        raise FileProblem(f"{path} is empty", hint="a row per sample, a column per number")
    bare = _QUOTED.sub("", line)
    counts = {mark: bare.count(mark) for mark in DELIMITERS if mark in bare}
    if len(counts) > 1:
        facts = [(DELIMITERS[mark], f"{count} times") for mark, count in counts.items()]
        hint = "use only one of them; put cells that contain another in quotes, and use decimal points"
        raise FileProblem(f"{path}, line {number}: the column separator is ambiguous", facts, hint)
    return TableText(path, next(iter(counts), next(iter(DELIMITERS))))


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig")


def _check_encoding(path: Path) -> None:
    """FileProblem with the line of the first byte that is not UTF-8."""
    hint = "save it as UTF-8"
    with path.open("rb") as file:
        head = file.read(2)
        file.seek(0)
        wide = next((name for mark, name in WIDE if head == mark), "")
        if wide:
            raise FileProblem(f"{path} is text in {wide}", hint=hint)
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                facts = [("byte", f"0x{line[error.start]:02x}, behind {line[: error.start][-40:].decode('utf-8')!r}")]
                raise FileProblem(f"{path}, line {number} is not text in UTF-8", facts, hint) from None


def cell_fault(text: str, whole: bool, limit: float) -> str:
    """The reason why a cell is no number of a kind: `whole`, at most `limit` in size; empty where it is one."""
    if not text:
        return "is empty"
    if not is_number(text):
        comma = "," in text and is_number(text.replace(",", "."))
        return "has a decimal comma and no point" if comma else "is not a decimal number"
    value = float(text)
    if not math.isfinite(value) or abs(value) > limit:
        return f"is beyond {limit:.8g}"
    return "is not a whole number" if whole and not value.is_integer() else ""


def numbers_of(cells: Sequence[str], whole: bool, limit: float) -> list[float] | None:
    """The numbers of cells; None where one is none of that kind."""
    # Of texts of these characters alone, float takes just those that NUMBER matches, and sooner.
    if not _CHARACTERS.fullmatch("".join(cells)):
        return None
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return None
    if max(map(abs, numbers), default=0) > limit or (whole and not all(map(float.is_integer, numbers))):
        return None
    return numbers


@dataclass(frozen=True)
class TablePlace:
    """A cell's place for messages: its file, line, row of samples from 1 on, and column."""

    path: Path
    line: int
    row: int
    column: str

    def error(
        self,
        text: str,
        fault: str,
        facts: Sequence[tuple[str, str]] = (),
        hint: str = "a number like 1.5 or 2e-3 in each row, or the row left out",
    ) -> FileProblem:
        """The error of a cell with this text."""
        shown = repr(text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}...")
        where = f"{self.path}, line {self.line} (row {self.row}), {self.column}"
        return FileProblem(f"{where}: {shown} {fault}", facts, hint)


# Record of the data read from a source of samples: columns or arrays for the inputs, and one for the target.

TAKEN_SHOWN = 20
"""Names of inputs, and of classes, that a line for people lists."""
Kind = Literal["table", "arrays", "images"]


@dataclass(frozen=True)
class Taken:
    """Names of what is read from a source of so many samples: columns of a table, or arrays.

    `target` is empty where nothing is taken for one. `headings` says that a table names its columns, which else have
    numbers from 1 on; `words` says that its target holds names of classes, not numbers.
    """

    kind: Kind
    samples: int
    inputs: tuple[str, ...]
    target: str
    headings: bool = False
    words: bool = False

    def lines(self, place: str, classes: Sequence[str]) -> list[str]:
        """Lines for people: the inputs and the target, then the number of each class that has a name."""
        numbered = self.kind == "table" and not self.headings
        what = "column " if numbered else ""
        inputs = [name if numbered else repr(name) for name in self.inputs]
        target = f"target {what}{self.target if numbered else repr(self.target)}" if self.target else "no target"
        several = "columns " if numbered and len(inputs) > 1 else what
        heading = ", no headings" if numbered else ""
        lines = [f"{place}: {self.samples} samples{heading}, inputs {several}{listed(inputs, TAKEN_SHOWN)}, {target}"]
        names = [f"{number} {name!r}" for number, name in enumerate(classes)]
        return lines + ([f"{place}: classes {listed(names, TAKEN_SHOWN)}"] if names else [])

    def place(self, name: str, index: Sequence[int], shape: Sequence[int], is_target: bool) -> str:
        """The place of a number: its index in the array of that name, or row, from 1 on, and column of a table.

        `shape` is that of one sample.
        """
        if self.kind != "table":
            return f"{name}{list(index)}"
        at = int(np.ravel_multi_index(tuple(index[1:]), tuple(shape))) if shape else 0
        return f"row {index[0] + 1}, {self.column(self.target if is_target and self.target else self.inputs[at])}"

    def column(self, name: str) -> str:
        """A column of a table in a message."""
        return f"column {name!r}" if self.headings else f"column {name}"


# The target's column of a table: numbers, or words in all rows, which are names of classes.

TARGETS = ("labels", "label", "target", "y")
"""Headings of the target's column, in any case, where the caller names none."""
NUMBERS = "whole numbers from 0 on in all rows, or words in all rows; or a loss that takes floats"
TARGET_SHOWN = 30
"""Classes that a message lists."""


@dataclass(frozen=True)
class TargetColumn:
    """The cells of the target by rows, the line of each, and the column's name in messages."""

    path: Path
    label: str
    texts: Sequence[str]
    lines: Sequence[int]
    headed: bool

    def numbers(self, dtype: str) -> Array:
        """The numbers of all rows; FileProblem for a cell that is none of that type."""
        whole = dtype == "int32"
        for row, text in enumerate(self.texts):
            if fault := cell_fault(text, whole, LIMITS[dtype]):
                hint = NUMBERS if whole else "a number like 1.5 or 2e-3 in each row; or a loss that takes classes"
                raise self._place(row).error(text, fault, (), hint)
        numbers = np.array(list(map(float, self.texts)))
        return numbers.astype(np.int64) if whole else numbers

    def has_words(self, like: Taken | None) -> bool:
        """Whether the target of class numbers is given by words, as it is where those that are trained have words.

        FileProblem for a cell that is neither a number nor a word, and where some rows have numbers and others words.
        """
        numbers = list(map(is_number, self.texts))
        for row, text in enumerate(self.texts):
            if not numbers[row] and (not text or resembles_number(text)):
                raise self._place(row).error(text, cell_fault(text, whole=True, limit=0), (), NUMBERS)
        if like is not None and like.words:
            return True
        if all(numbers) or not any(numbers):
            return not all(numbers)
        row, other = numbers.index(False), numbers.index(True)
        facts = [("but", f"{self.texts[other]!r} in line {self.lines[other]} (row {other + 1}) is a number")]
        raise self._place(row).error(self.texts[row], "is a word", facts, NUMBERS)

    def classes(self, known: Sequence[str], like: Taken | None) -> tuple[str, ...]:
        """The names of classes from 0 on: the known ones, or the words in sorted order.

        FileProblem for a word that is not known, and for words where those that are trained have numbers.
        """
        if not known and like is not None:
            cause = "is a word, and the target of the samples that are trained has numbers"
            raise self._place(0).error(self.texts[0], cause, (), "class numbers, as in those samples")
        strange = next((row for row, text in enumerate(self.texts) if known and text not in known), None)
        if strange is not None:
            facts = [("classes", listed(list(map(repr, known)), TARGET_SHOWN))]
            cause = "is not a class of the samples that are trained" if like is not None else "is not a class"
            raise self._place(strange).error(self.texts[strange], cause, facts, "one of these, or the row left out")
        self._check_first()
        return tuple(known) or tuple(sorted(set(self.texts)))

    def numbered(self, classes: Sequence[str]) -> Array:
        """The number of each row's class."""
        number_of = {name: number for number, name in enumerate(classes)}
        return np.array([number_of[text] for text in self.texts], np.int64)

    def _check_first(self) -> None:
        """FileProblem where the first row looks like headings, some of which are numbers."""
        text = self.texts[0]
        if not self.headed and text.lower() in TARGETS and self.texts.count(text) == 1:
            cause = "looks like a heading, and the row is one of samples since another cell of it is a number"
            raise self._place(0).error(text, cause, (), "headings that are not numbers, or none")

    def _place(self, row: int) -> TablePlace:
        return TablePlace(self.path, self.lines[row], row + 1, self.label)


# Samples out of a table of text: one rule for headings, for the column of the target, and for every cell.

OPTION = "--target-column"
READER_SHOWN = 30
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
            facts = [("headings", listed(list(map(repr, columns.names)), READER_SHOWN))]
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
        facts = [("headings", listed(list(map(repr, first.cells)), READER_SHOWN))]
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
        facts = [("headings", listed(list(map(repr, headings)), READER_SHOWN))]
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
            facts = [
                ("columns", f"{width}, by the first row"),
                ("row", listed(list(map(repr, record.cells)), READER_SHOWN)),
            ]
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
    return listed(list(map(repr, names)), READER_SHOWN) if headed else f"{len(names)}, without headings"
