"""Tables of text: what is read is what the rules say of the rows, and what they allow is not refused."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.errors import UserError
from deployer.core.ir import TensorType
from deployer.fitting.data.sources import read_samples
from deployer.training.order import Samples
from deployer.training.tables import Request, Taken
from DeployTest.faults.fuzz.draw import HOSTILE, Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

WIDTH, ROWS = 4, 6
CELLS = (
    "",
    " ",
    "1",
    "-1",
    "2.5",
    "1e3",
    "1e39",
    "nan",
    "inf",
    "0x1F",
    "1_000",
    "1,5",
    '"1"',
    '"',
    '""',
    '"a""b"',
    "x",
)
CELLS += (
    "9" * 400,
    "w" * 140_000,
    "4" * 140_000,
    "\u0663",
    "1 2",
    "\0",
    "+",
    ".",
    "1.",
    "2147483648",
    "label",
    "-0",
    "1;2",
)
"""Cells: numbers as they are written here and elsewhere, quotes, words, nothing, and very long ones."""


CELLS += (
    *(f"{2**31 - 1}", f"{2**31}", "-2147483648", "3.4028235e38", "3.5e38", "-3.5e38", "1e", "e1", ".5", "5.", "0b1"),
)
CELLS += (*("1,000", "\u0661\u0662", "infinity", "-0x2", "0o7", "_1", "cat", "2.0", "2e0"),)
TARGETS = ("labels", "label", "target", "y")
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
MARKS = ",;\t"
MOST = {"float32": 3.4028234663852886e38, "int32": 2147483647.0}


@dataclass(frozen=True)
class Due:
    """Expected reading of a table: its numbers, labels, names of classes and columns."""

    numbers: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    inputs: tuple[str, ...]
    target: str
    headed: bool
    words: bool


@kind(4)
def table(trial: Trial) -> str:
    """A table of text, edited in cells, rows and bytes; some are read as the validation of another one."""
    draw = trial.draw("which")
    mark, headed, words = draw.one(",,,;\t"), draw.chance(0.6), draw.chance(0.4)
    names = [[*"abcd", draw.one(("label", "target", "Y", "labels"))]] if headed else []
    label = draw.one(("cat", "b")) if words else "1"
    types = {
        "x": TensorType(draw.one(("float32", "float32", "int32")), (2, WIDTH)),
        "labels": TensorType("int32" if words else draw.one(("int32", "int32", "float32")), (2,)),
    }
    whole = types["x"].dtype == "int32"
    rows = [[_number(draw, whole) for _ in range(WIDTH)] for _ in range(ROWS)]
    lines = names + [[*row, label if n % 2 else "dog" if words else "0"] for n, row in enumerate(rows)]
    if alone := draw.chance(0.1):  # the model's own output is the loss
        lines, types = [row[:WIDTH] for row in lines], {"x": types["x"]}
    request, first = Request(), list(map(list, lines))
    if draw.chance(0.05):
        request = Request(like=draw.one((Taken("arrays", 6, ("x",), "labels"), Taken("images", 6, ("x",), "labels"))))
        trial.log.append("beside other samples")
    elif draw.chance(0.4):
        request = _as_trained(trial, types, first, mark)
        if headed and draw.chance(0.5):
            order = draw.some(range(len(first[0])), len(first[0]))
            lines = [[row[place] for place in order] for row in lines]
    if draw.chance(0.85):
        trial.edit("table", lines, least=0)
    end = draw.one(("\n", "\n", "\r\n"))
    content = "".join(mark.join(row) + end for row in lines).encode(errors="surrogatepass")
    if draw.chance(0.15):
        content = draw.one((b"\xef\xbb\xbf", b"\xff\xfe", b"\n")) + content
        trial.log.append("first bytes")
    content = damage(trial, content) if draw.chance(0.2) else content
    path = trial.case / f"t{draw.one(('.csv', '.csv', '.tsv'))}"
    path.write_bytes(content)
    column = draw.one(("a", "label", "nobody", " a ")) if not alone and draw.chance(0.15) else ""
    trial.log += [f"column {column}"] if column else []
    request = replace(request, column=column)
    due, sure = _by_rules(content, types, request), b'"' not in content
    try:
        with refusing(trial, path, right=(due is not None) if sure else None):
            found = read_samples(draw.one((path, str(path))), types, request=request)
    except UserError as error:
        if sure:
            _place_is_right(error.cause, content.decode("utf-8-sig", "replace"))
            _facts_are_right(error)
        raise
    if sure and due is not None:
        _compare(found, due, types)
        return "equal to the rules"
    if found.count != len(found.arrays["x"]):
        raise Finding("read otherwise", f"{found.count} samples")
    _compare_quoted(found, content.decode("utf-8-sig"))
    return "equal to Python's reader"


CELL = re.compile(r"line (\d+) \(row (-?\d+)\), column ('.*?'|\".*?\"|\d+): ('.*'|\".*\") (.*)", re.DOTALL)
PLACE = re.compile(r"line \d+ \(row -?\d+\), ")
LINE = re.compile(r"line (\d+)(?: \(row (-?\d+)\))? ")


def _place_is_right(cause: str, text: str) -> None:
    """Finding where an error of a cell names another line, row or column than that of its text."""
    lines = re.split("\r\n|\r|\n", text)
    if told := CELL.search(cause):
        line, row, column, shown = int(told[1]), int(told[2]), told[3], told[4]
        first = next(line for line in lines if line.strip(" "))
        mark = next((mark for mark in MARKS if mark in first), ",")
        names = [cell.strip() for cell in first.split(mark)]
        headed = not any(map(DECIMAL.fullmatch, names))
        labels = [repr(name) for name in names] if headed else [str(place + 1) for place in range(len(names))]
        cell = lines[line - 1].split(mark)[labels.index(column)].strip() if column in labels else None
        rows = sum(bool(each.strip(" ")) for each in lines[:line]) - headed
        if not told[5].strip():
            raise Finding("message", f"{cause[:500]}: without what is wrong with the cell")
        comma = cell is not None and "," in cell and DECIMAL.fullmatch(cell.replace(",", "."))
        if ("decimal comma" in told[5]) and not comma:
            raise Finding("message", f"{cause[:500]}: there is none")
        if cell is None or row != rows or shown not in (repr(cell), repr(f"{cell[:100]}...")) or len(shown) > 700:
            raise Finding("message", f"{cause[:500]}: line {line} has {str(cell)[:100]!r} in row {rows}")
    elif PLACE.search(cause):
        raise Finding("message", f"{cause[:500]}: the column is not named as the table does")
    elif (told := LINE.search(cause)) and told[2]:
        rows = [sum(bool(each.strip(" ")) for each in lines[: int(told[1])]) - headed for headed in (0, 1)]
        if int(told[2]) not in rows:
            raise Finding("message", f"{cause[:500]}: row {rows}")


def _facts_are_right(error: UserError) -> None:
    """Finding where an error of a row's width lacks the widths, or one of a row without headings names no number."""
    facts = dict(error.facts)
    if error.cause.endswith(" cells") and not {"columns", "row", "separator"} <= {*facts}:
        raise Finding("message", f"{error.cause[:500]}: {sorted(facts)} are too few facts")
    told = re.search(r"since '(.*)' is a number$", facts.get("read as", ""))
    if told and not DECIMAL.fullmatch(told[1]):
        raise Finding("message", f"{told[1]!r} is no number")


def _well_quoted(text: str, mark: str) -> bool:
    """Whether each cell with a quotation mark begins and ends with one, and has all others doubled (RFC 4180)."""
    field = rf'(?: *"(?:[^"]|"")*" *|[^"{mark}\r\n]*)'
    return re.fullmatch(rf"(?:{field}[{mark}\r\n])*{field}", text) is not None


def _as_trained(trial: Trial, types: dict[str, TensorType], rows: list[list[str]], mark: str) -> Request:
    """A request for the validation of these rows, which are trained."""
    path = trial.case / "trained.csv"
    path.write_text("".join(mark.join(row) + "\n" for row in rows))
    trained = read_samples(path, types)
    return Request(classes=trained.classes, like=trained.taken)


def _number(draw: Draw, whole: bool) -> str:
    """A finite number as text."""
    return str(draw.number(-9, 9)) if whole else f"{draw.floating():g}".replace("nan", "1").replace("inf", "2")


def _compare(found: Samples, due: Due, types: dict[str, TensorType]) -> None:
    flat = {"x": due.numbers.reshape(-1), "labels": due.labels}
    same_arrays(
        {name: np.asarray(array).reshape(-1) for name, array in found.arrays.items()},
        {name: flat[name].astype(each.dtype) for name, each in types.items()},
    )
    taken = found.taken
    assert taken is not None
    mine = found.count, found.classes, taken.samples, taken.inputs, taken.target, taken.headings, taken.words
    count = len(due.numbers)
    theirs = count, due.classes, count, due.inputs, due.target, due.headed, due.words
    if mine != theirs:
        raise Finding("read otherwise", f"{mine}, not {theirs}")


def _by_rules(content: bytes, types: dict[str, TensorType], request: Request) -> Due | None:
    """The samples of a table without quotes, None where a rule is broken."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = [line for line in re.split("\r\n|\r|\n", text) if line.strip(" ")]
    marks = [mark for mark in MARKS if lines and mark in lines[0]]
    if not lines or len(marks) > 1:
        return None
    rows = [[cell.strip() for cell in line.split(marks[0] if marks else ",")] for line in lines]
    headed = not any(map(DECIMAL.fullmatch, rows[0]))
    names = rows[0] if headed else [str(place + 1) for place in range(len(rows[0]))]
    target = _target(names, headed, request.column.strip()) if "labels" in types else ""
    unclear = headed and ("" in names or max(Counter(names).values()) > 1)
    rows = rows[headed:]
    if unclear or len(names) < len(types) or target is None or not rows or any(len(row) != len(names) for row in rows):
        return None
    inputs = [name for name in names if name != target]
    if request.like is not None and request.like.kind == "table":
        if request.like.headings != headed or sorted(request.like.inputs) != sorted(inputs):
            return None
        inputs = list(request.like.inputs)
    cells = [[row[names.index(name)] for name in inputs] for row in rows]
    numbers = [_numbers(row, types["x"].dtype) for row in cells]
    labelled: Labelled | None = np.array([]), request.classes, False
    if "labels" in types:
        texts = [row[names.index(target)] for row in rows]
        labelled = _labels(texts, types["labels"].dtype, headed, request)
    if labelled is None or len(inputs) != WIDTH or any(row is None for row in numbers):
        return None
    labels, classes, words = labelled
    return Due(np.array(numbers, np.float64), labels, classes, tuple(inputs), target, headed, words)


def _target(names: Sequence[str], headed: bool, column: str) -> str | None:
    if not headed:
        return None if column else names[-1]
    if column:
        return column if column in names else None
    known = [name for name in names if name.lower() in TARGETS]
    return known[0] if len(known) == 1 else None


def _numbers(cells: Sequence[str], dtype: str) -> list[float] | None:
    """The numbers of cells; None where one is none, too large, or no whole one."""
    if not all(map(DECIMAL.fullmatch, cells)):
        return None
    numbers = [float(cell) for cell in cells]
    right = all(abs(n) <= MOST[dtype] and (dtype != "int32" or n == int(n)) for n in numbers)
    return numbers if right else None


Labelled = tuple[np.ndarray, tuple[str, ...], bool]


def _labels(texts: Sequence[str], dtype: str, headed: bool, request: Request) -> Labelled | None:
    """Labels, names of classes, and whether there are words; None where the target breaks a rule."""
    like = request.like
    are = [DECIMAL.fullmatch(text) is not None for text in texts]
    odd = any(not number and (not text or _means_number(text)) for text, number in zip(texts, are, strict=True))
    words = dtype == "int32" and ((like is not None and like.words) or not any(are))
    if not words:
        numbers = _numbers(texts, dtype)
        return None if numbers is None else (np.array(numbers), request.classes, False)
    if odd or (any(are) and not (like is not None and like.words)):
        return None
    if like is not None and not request.classes:
        return None
    if not headed and texts[0].lower() in TARGETS and texts.count(texts[0]) == 1:
        return None
    classes = request.classes or tuple(sorted({*texts}))
    if not {*texts} <= {*classes}:
        return None
    return np.array([classes.index(text) for text in texts]), classes, True


def _means_number(text: str) -> bool:
    """Whether a text is a number for Python, commas aside."""
    ways: tuple[Callable[[str], object], ...] = (float, lambda t: int(t, 0))
    for way in ways:
        with suppress(ValueError):
            way(text.replace(",", ""))
            return True
    return False


def _compare_quoted(found: Samples, text: str) -> None:
    """Compare the inputs of a table with quotes with Python's reader of CSV."""
    csv.field_size_limit(1 << 24)
    first = re.sub('"[^"]*"', "", text.strip("\r\n ")).split("\n")[0]
    marks = [mark for mark in MARKS if mark in first]
    if not _well_quoted(text, (*marks, ",")[0]):
        raise Finding("read otherwise", "quotes within a cell were taken")
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=(*marks, ",")[0], skipinitialspace=True)
    rows = [[cell.strip() for cell in row] for row in lines]
    rows = [row for row in rows if any(row) or len(row) > 1]
    taken = found.taken
    assert taken is not None
    names = rows[0] if taken.headings else [str(place + 1) for place in range(len(rows[0]))]
    for row, cells in zip(found.arrays["x"], rows[len(rows) - found.count :], strict=True):
        numbers = [float(cells[names.index(name)]) for name in taken.inputs]
        if not np.array_equal(np.asarray(row).reshape(-1), np.array(numbers).astype(np.asarray(row).dtype)):
            raise Finding("read otherwise", f"a row is {row.tolist()}, not {numbers}")
    if found.count not in (len(rows), len(rows) - 1) or found.count != len(rows) - taken.headings:
        raise Finding("read otherwise", f"{found.count} samples of {len(rows)} rows")


@edits_of("table")
def cell_changed(rows: list[list[str]], draw: Draw) -> None:
    """Another cell."""
    if rows:
        row = draw.one(rows)
        row[draw.number(0, max(len(row) - 1, 0))] = draw.one((*CELLS, draw.one(HOSTILE)))


@edits_of("table")
def target_changed(rows: list[list[str]], draw: Draw) -> None:
    """Another label in a row, or in all."""
    for row in rows if draw.chance(0.2) else [draw.one(rows)] if rows else []:
        row[-1] = draw.one((*CELLS, "cat", "dog", "b", "bird", "Label", "y"))


@edits_of("table")
def first_row_like_headings(rows: list[list[str]], draw: Draw) -> None:
    """The word of a heading as the label of the first row, or of the first two."""
    word = draw.one((*TARGETS, "Label", "Y"))
    for row in rows[: draw.one((1, 1, 2))]:
        row[-1] = word


BOUNDS = ("2147483647", "-2147483647", "2147483648", "2.5", "2.0", "3.4028234663852886e38", "3.4028235677973366e38")


@edits_of("table")
def number_at_a_bound(rows: list[list[str]], draw: Draw) -> None:
    """A number that is the largest of its type, the one behind it, or none that is whole, behind the headings."""
    row = draw.one(rows[1:] or rows or [[""]])
    row[draw.number(0, max(len(row) - 2, 0))] = draw.one(BOUNDS)


@edits_of("table")
def width_changed(rows: list[list[str]], draw: Draw) -> None:
    """A cell more or less in a row, or in all."""
    for row in rows if draw.chance(0.3) else [draw.one(rows)] if rows else []:
        if draw.chance(0.5) and len(row) > 1:
            row.pop(draw.number(0, len(row) - 1))
        else:
            row.insert(draw.number(0, len(row)), draw.one(("1", "x", "", "2")))


@edits_of("table")
def row_changed(rows: list[list[str]], draw: Draw) -> None:
    """A row removed, repeated, swapped or blank."""
    if not rows:
        return
    at, other = draw.number(0, len(rows) - 1), draw.number(0, len(rows) - 1)
    match draw.number(0, 4):
        case 0:
            del rows[at]
        case 1:
            rows.insert(other, list(rows[at]))
        case 2:
            rows[at], rows[other] = rows[other], rows[at]
        case 3:
            rows.insert(at, [draw.one(("", " ", "\x0c", "#"))])
        case _:
            del rows[1:]


@edits_of("table")
def quotes_added(rows: list[list[str]], draw: Draw) -> None:
    """A cell in quotes, with a separator or a line feed in it."""
    if rows:
        row = draw.one(rows)
        at = draw.number(0, len(row) - 1)
        cell = row[at]
        whole = (f'"{cell}"', f'"{cell}', f'"{cell},"', f'"{cell}\n"', f'{cell}"', f' "{cell}" ')
        row[at] = draw.one((*whole, f'x""{cell}', f'{cell}""', f'"{cell}""y"', f'""{cell}'))
