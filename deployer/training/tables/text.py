"""Text of a table: its encoding, what separates its columns, its records, and which cells are numbers."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from deployer.core.errors import FileProblem
from deployer.core.files.reading import check_file
from deployer.core.limits import ARCHIVE_BYTES

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
        parts = text.removesuffix("\n").split(self.delimiter)
        if '"' not in text:
            yield from map(str.strip, parts)
            return
        held: list[str] = []
        quotes = 0
        for part in parts:
            held.append(part)
            quotes += part.count('"')
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
        return FileProblem(f"{self.path}, line {line}: a quote is not closed, or stands inside of a cell", facts, hint)


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
        hint = "one of them alone; quotes around cells that hold another, and a point in decimal numbers"
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
