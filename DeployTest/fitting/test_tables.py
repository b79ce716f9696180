"""Tables of text as samples: headings, the target's column and cells by one rule, whatever the file looks like."""

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem, UserError
from deployer.core.ir import TensorType
from deployer.training.tables import Request, Table, is_number, numbers_of, read_table

pytestmark = [pytest.mark.host]
BOM = b"\xef\xbb\xbf"
CLASSES = {"x": TensorType("float32", (1, 2)), "labels": TensorType("int32", (1,))}
FLOATS = {"x": TensorType("float32", (1, 2)), "target": TensorType("float32", (1,))}
IDS = {"x": TensorType("int32", (1, 2)), "labels": TensorType("int32", (1,))}


def table(folder: Path, content: str | bytes, types: dict[str, TensorType] = CLASSES, **more: object) -> Table:
    """The table that a file of this content is."""
    path = folder / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, types, Request(**more))  # type: ignore[arg-type]


def refused(folder: Path, content: str | bytes, types: dict[str, TensorType] = CLASSES, **more: object) -> str:
    """Error that reading a table raises."""
    with pytest.raises(UserError) as caught:
        table(folder, content, types, **more)
    return str(caught.value)


def _plain(cell: str) -> bool:
    """Whether a cell is a finite decimal number, said in another way than by the compiler."""
    try:
        return set(cell) <= set("0123456789+-.eE") and math.isfinite(float(cell))
    except ValueError:
        return False


Outcome = tuple[list[list[float]], list[int], list[str], str] | list[str]
"""Inputs, labels, classes and the target's name; or what the error's message has."""


def _stated(text: str, delimiter: str, column: str) -> Outcome:
    """The outcome by the rule as a person would state it, of Python's own reading of the file."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter, skipinitialspace=True)
    rows = [[cell.strip() for cell in row] for row in reader if row]
    headed = not any(map(_plain, rows[0]))
    names = rows.pop(0) if headed else []
    if headed and ("" in names or len({*names}) < len(names)):
        return ["heading"]
    if column and column not in names:
        return ["--target-column", repr(column)] if not headed else [repr(column), *map(repr, names)]
    usual = [n for n in names if n.lower() in ("label", "labels", "target", "y")]
    if headed and not column and len(usual) != 1:
        return ["--target-column", *map(repr, names)]
    at = names.index(column or usual[0]) if headed else len(rows[0]) - 1

    def fault(row: int, place: int) -> list[str]:
        label = repr(names[place]) if headed else str(place + 1)
        return [f"(row {row + 1})", f"column {label}:", repr(rows[row][place])]

    for row, cells in enumerate(rows):
        for place, cell in enumerate(cells):
            if place != at and not _plain(cell):
                return fault(row, place)
    targets = [row[at] for row in rows]
    odd = [n for n, cell in enumerate(targets) if cell in ("", "1_000", "nan", "inf", "0x1F", "1,5")]
    words = [n for n, cell in enumerate(targets) if not _plain(cell)]
    if odd or 0 < len(words) < len(targets):
        return fault((odd or words)[0], at)
    classes = sorted({*targets}) if words else []
    broken = [n for n, cell in enumerate(targets) if not words and float(cell) % 1]
    if broken:
        return fault(broken[0], at)
    labels = [classes.index(cell) if words else int(float(cell)) for cell in targets]
    inputs = [[float(cell) for place, cell in enumerate(row) if place != at] for row in rows]
    return inputs, labels, classes, names[at] if headed else str(at + 1)


HEADINGS = ("labels", "Labels", "LABEL", "target", "y", "species", "a", "", "2019")
"""The target's heading; `a` is that of an input, too, and a number is none."""
CELLS = ("3", "-1.5e-3", ".5", "", "NA", "1_000", "nan", "0x1F", "1,5", "4.")
TARGETS = (
    ("0", "2"),
    ("1.0", "1e0"),
    ("cat", "dog"),
    ("0", "dog"),
    ("", "1"),
    ("0.5", "1"),
    ("NA", "NA"),
    ("0x1F", "nan"),
)


def _texts(delimiter: str, spaces: bool) -> Iterator[tuple[str, str]]:
    """Files, and the column that the caller names."""
    pad = "  " if spaces else ""
    for heading, at, cell, targets in itertools.product((None, *HEADINGS), (0, 1, 2), CELLS, TARGETS):
        rows = [["7", cell, targets[0]], ["8", "9", targets[1]]]
        rows = ([["a", "b", heading]] if heading is not None else []) + rows
        rows = [[*row[:2][:at], row[2], *row[:2][at:]] for row in rows]
        quoted = [[f'"{cell}"' if "," in cell else cell for cell in row] for row in rows]
        text = "".join(delimiter.join(f"{pad}{cell}{pad}" for cell in row) + "\r\n" for row in quoted)
        yield text, ""
        if heading == "species" or at == 1:
            yield text, "species"


QUICK = ((",", False, False), (";", True, False), ("\t", False, True))
"""Each delimiter, and each of the rest, once; the slow suite takes all."""
FORMS = itertools.product((",", ";", "\t"), (False, True), (False, True))


@pytest.mark.parametrize(
    ("delimiter", "spaces", "bom"),
    [pytest.param(*form, marks=[] if form in QUICK else pytest.mark.slow) for form in FORMS],
)
def test_rule(delimiter: str, spaces: bool, bom: bool, tmp_path: Path) -> None:
    """Each file gives the numbers, or the error at the cell, that the rule as the test states it gives."""
    read = faulty = 0
    for text, column in _texts(delimiter, spaces):
        stated = _stated(text, delimiter, column)
        content = (BOM if bom else b"") + text.encode()
        if isinstance(stated, list):
            message = refused(tmp_path, content, column=column)
            assert all(part in message for part in stated), (text, column, stated, message)
            faulty += 1
            continue
        found = table(tmp_path, content, column=column)
        inputs, labels = found.columns.values()
        given = inputs.tolist(), labels.tolist(), [*found.classes], found.taken.target
        assert given == stated, (text, column)
        read += 1
    assert min(read, faulty) > 300


@pytest.mark.parametrize("heading", ["labels", " labels", "Labels ", "target", "LABEL", "y", '"Target"'])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_first_heading_is_the_target(heading: str, bom: str, tmp_path: Path) -> None:
    """Wherever it stands, and however it is written, the last feature is no target."""
    found = table(tmp_path, f"{bom}{heading},a,b\n1,0.5,7\n0,0.25,9\n")
    assert found.columns["x"].tolist() == [[0.5, 7], [0.25, 9]]
    assert found.columns["labels"].tolist() == [1, 0]
    assert (found.taken.inputs, found.taken.target) == (("a", "b"), heading.strip().strip('"'))


@pytest.mark.parametrize(
    ("cell", "word"), [("", "is empty"), ("NA", "is not a decimal"), ("1_000", "is not a decimal")]
)
def test_odd_first_rows_are_no_headings(cell: str, word: str, tmp_path: Path) -> None:
    """A row with a number is one of samples: a cell in it that is none is an error, and drops nothing."""
    assert f"line 1 (row 1), column 2: '{cell}' {word}" in refused(tmp_path, f"0.5,{cell},1\n2,3,0\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty"]),
        ("\n \n", ["is empty"]),
        (BOM, ["is empty"]),
        ("a,b,y\n", ["has only a header row", "'a', 'b', 'y'"]),
        ("a,b,y\n1,2,0\n\n1,2\n", ["line 4 (row 2) has 2 cells", "columns        3"]),
        ("a,b,y\n1,2,0,\n", ["line 2 (row 1) has 4 cells"]),
        ("a,a,y\n1,2,0\n", ["two columns have the heading 'a'"]),
        (" a,a ,y\n1,2,0\n", ["two columns have the heading 'a'"]),
        (",a,y\n1,2,0\n", ["line 1: column 1 has no heading", "index=False"]),
        ("a,y,Label\n1,2,0\n", ["'y', 'Label' may each be the target", "--target-column"]),
        ("1;2,5;0\n", ["line 1", "column separator is ambiguous", "semicolon      2 times", "comma          1 times"]),
        ("a b y\n1 2 0\n", ["has one column", "'a b y'", "comma, semicolon, tab"]),
        ("a|b|y\n1|2|0\n", ["has one column"]),
        ('a,b,y\n1,"2,0\n3,4,1\n', ["line 2: a quote is not closed"]),
        ('a,b,y\n1,2"5",0\n', ["line 2: a quote is not closed, or is inside a cell"]),
        ('a,b,y\n1,"2"5,0\n', ["line 2: a quote"]),
        ('a,b,y\n1,"1,5",0\n', ["column 'b': '1,5' has a decimal comma"]),
        ("a,b,y\n1,1e999,0\n", ["column 'b': '1e999' is beyond"]),
        ("a,b,y\n1,1e39,0\n", ["column 'b': '1e39' is beyond 3.4028235e+38"]),
        ("a,b,y\n1,2,3000000000\n", ["column 'y': '3000000000' is beyond"]),
        ("a,b,y\n1,2,0.5\n", ["(row 1), column 'y': '0.5' is not a whole number"]),
        ("a,b,y\n1,\u0661,0\n", ["column 'b': '\u0661' is not a decimal number"]),
        ("a,b,y\n1,2 3,0\n", ["column 'b': '2 3' is not a decimal number"]),
        ("a,b,y\n1,2,cat\n1,2,\n", ["(row 2), column 'y': '' is empty"]),
        (
            "a,b,y\n1,2,1_000\n1,2,2_000\n",
            ["(row 1), column 'y': '1_000' is not a decimal number", "or words in all rows"],
        ),
        ('a,b,y\n1,2,cat\n1,2,"1,5"\n', ["(row 2), column 'y': '1,5' has a decimal comma"]),
        ("a,b,y\n1,2,cat\n1,2,inf\n", ["(row 2), column 'y': 'inf' is not a decimal number"]),
        ("a,b,y\n1,2,0\n1,2,dog\n", ["(row 2), column 'y': 'dog' is a word", "'0' in line 2 (row 1)"]),
        ("2019,2020,label\n1,2,cat\n", ["line 1 (row 1), column 3: 'label' looks like a heading"]),
        ("2019,b,y\n1,2,0\n", ["line 1 (row 1), column 2: 'b' is not a decimal number", "'2019' is a number"]),
        ("a,b,y\n1,2,0\n\ufeffa,b,y\n", ["line 3 (row 2), column 'a': '\\ufeffa' is not a decimal number"]),
        (b"a,b,y\n1,2,caf\xe9\n", ["line 2 is not text in UTF-8", "0xe9"]),
        ("a,b,y\n1,2,0\n".encode("utf-16"), ["is text in UTF-16"]),
    ],
)
def test_refused(content: str | bytes, words: Sequence[str], tmp_path: Path) -> None:
    """Other files are refused by the place, with the numbers."""
    message = refused(tmp_path, content)
    assert message.count("data.csv") == 1
    assert all(word in message for word in words), message


def test_quotes_and_lines(tmp_path: Path) -> None:
    """Quotes hold separators, quotes and line breaks; any line breaks; blank lines are none; spaces are outside."""
    text = 'a , "b, in kg" ,"the ""y"""\r\n"1",  "2"  , " no, ""never"" "\r\r\n3,4,"two\nlines"\n   \n5,6,maybe'
    found = table(tmp_path, text, column='the "y"')
    assert found.taken.inputs == ("a", "b, in kg")
    assert found.columns["x"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.classes == ("maybe", 'no, "never"', "two\nlines")
    assert found.columns["labels"].tolist() == [1, 2, 0]


def test_types_of_cells(tmp_path: Path) -> None:
    """Integers where the model takes some, floats for a target that is one, though all its numbers are whole."""
    text = "a,b,y\n1,2,3\n4,5,6\n"
    kinds = {kind: table(tmp_path, text, types).columns for kind, types in (("f", FLOATS), ("i", CLASSES), ("d", IDS))}
    assert [kinds["f"][name].dtype.kind for name in FLOATS] == ["f", "f"]
    assert [kinds["i"][name].dtype.kind for name in CLASSES] == ["f", "i"]
    assert [kinds["d"][name].dtype.kind for name in IDS] == ["i", "i"]
    assert "column 'b': '2.5' is not a whole number" in refused(tmp_path, "a,b,y\n1,2.5,3\n", IDS)
    assert "column 'y': 'cat' is not a decimal number" in refused(tmp_path, "a,b,y\n1,2.5,cat\n", FLOATS)
    assert table(tmp_path, "a,b,y\n1,2,.5\n", FLOATS).columns["target"].tolist() == [0.5]


def test_no_target(tmp_path: Path) -> None:
    """With a model whose output is the loss all columns are inputs, and no column can be named as target."""
    types = {"x": CLASSES["x"]}
    found = table(tmp_path, "a,y\n1,2\n", types)
    assert (found.columns["x"].tolist(), found.taken.inputs, found.taken.target) == ([[1, 2]], ("a", "y"), "")
    assert "--target-column has no effect" in refused(tmp_path, "a,y\n1,2\n", types, column="y")
    assert "several inputs" in refused(tmp_path, "a,y\n1,2\n", {**CLASSES, "more": CLASSES["x"]})


def test_named_column(tmp_path: Path) -> None:
    """It may be any, also beside one that is called a target; another name shows the headings."""
    text = "kind,labels,x\ncat,1,2\ndog,3,4\n"
    found = table(tmp_path, text, column=" kind")
    assert (found.classes, found.taken.inputs) == (("cat", "dog"), ("labels", "x"))
    with pytest.raises(OptionProblem, match="has no column 'Kind'") as caught:
        table(tmp_path, text, column="Kind")
    assert ("headings", "'kind', 'labels', 'x'") in caught.value.facts
    with pytest.raises(OptionProblem, match="has no headings, and --target-column 'kind'"):
        table(tmp_path, "1,2,0\n", column="kind")


def test_known_classes(tmp_path: Path) -> None:
    """Words are those that are trained, in their order; others, and numbers in their place, are refused by place."""
    trained = table(tmp_path, "y,a,b\ndog,1,2\ncat,3,4\nemu,5,6\n")
    like = {"classes": trained.classes, "like": trained.taken}
    found = table(tmp_path, "b,y,a\n8,emu,7\n", **like)
    assert found.columns["labels"].tolist() == [2]
    assert found.columns["x"].tolist() == [[7, 8]], "columns are those of the trained table, in its order"
    message = refused(tmp_path, "y,a,b\ncat,1,2\ncow,1,2\n", **like)
    assert "line 3 (row 2), column 'y': 'cow' is not a class of the samples that are trained" in message
    assert "'cat', 'dog', 'emu'" in message
    assert "'0' is not a class of" in refused(tmp_path, "y,a,b\n0,1,2\n", **like)
    for text in ("y,a,c\ncat,1,2\n", "y,a\ncat,1\n", "1,2,cat\n"):
        with pytest.raises(DatasetMismatch, match="other input columns than the table that is trained"):
            table(tmp_path, text, **like)
    numbers = table(tmp_path, "y,a,b\n1,1,2\n")
    assert "the target of the samples that are trained has numbers" in refused(
        tmp_path, "y,a,b\ncat,1,2\n", like=numbers.taken
    )
    named = table(tmp_path, "1,2,dog\n1,2,cat\n", classes=("dog", "cat"))
    assert (named.columns["labels"].tolist(), named.classes) == ([0, 1], ("dog", "cat"))
    assert "'cow' is not a class" in refused(tmp_path, "1,2,cow\n", classes=("dog", "cat"))


def test_many_rows(tmp_path: Path) -> None:
    """Numbers come back to the bit, and the place of a fault far behind is its own."""
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((5000, 2)) * 10.0 ** draw.integers(-30, 30, (5000, 2)), draw.integers(0, 3, 5000)
    rows = [f"{a!r}\t{b!r}\t{c}\n" for (a, b), c in zip(x.tolist(), y.tolist(), strict=True)]
    found = table(tmp_path, "".join(rows))
    assert (found.columns["x"] == x).all()
    assert (found.columns["labels"] == y).all()
    rows[4321] = "1\tx\t2\n"
    assert "line 4322 (row 4322), column 2: 'x'" in refused(tmp_path, "".join(rows))


def test_missing_file(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(FileProblem, match="does not exist"):
        read_table(tmp_path / "none.csv", CLASSES, Request())


def test_numbers_of_rows() -> None:
    """A row is read at once: its cells are numbers just where each of them is one."""
    texts = ["".join(parts) for n in range(6) for parts in itertools.product("1+-.e", repeat=n)]
    assert [t for t in texts if is_number(t) != (numbers_of([t], False, math.inf) is not None)] == []
