"""Samples in files that are no archives: tables of text, npy and safetensors files, and folders of images."""

import csv
import io
import json
import math
import re
import warnings
from dataclasses import replace
from functools import cache

import numpy as np

from deployer.core.ir import TensorType
from deployer.fitting.safetensors import DTYPES, METADATA, read_safetensors, safetensors_bytes
from deployer.fitting.sources import read_samples
from deployer.training.tables.reader import Request
from DeployTest.faults.fuzz.bases import Path
from DeployTest.faults.fuzz.draw import HOSTILE, Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

WIDTH, ROWS = 4, 6
TYPES = {"x": TensorType("float32", (2, WIDTH)), "labels": TensorType("int32", (2,))}
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


@kind(4)
def table(trial: Trial) -> str:
    """A table of text, edited in cells, rows and bytes."""
    draw = trial.draw("which")
    mark, headed, words = draw.one(",,,;\t"), draw.chance(0.6), draw.chance(0.4)
    names = [[*"abcd", draw.one(("label", "target", "Y", "labels"))]] if headed else []
    label = draw.one(("cat", "b")) if words else "1"
    whole = draw.chance(0.3)
    types = {"x": replace(TYPES["x"], dtype="int32"), "labels": TYPES["labels"]} if whole else TYPES
    rows = [[_number(draw, whole) for _ in range(WIDTH)] for _ in range(ROWS)]
    lines = names + [[*row, label if n % 2 else "dog" if words else "0"] for n, row in enumerate(rows)]
    if draw.chance(0.85):
        trial.edit("table", lines, least=0)
    end = draw.one(("\n", "\n", "\r\n"))
    content = "".join(mark.join(row) + end for row in lines).encode(errors="surrogatepass")
    content = (b"\xef\xbb\xbf" if draw.chance(0.1) else b"") + content
    content = damage(trial, content) if draw.chance(0.3) else content
    path = trial.case / f"t{draw.one(('.csv', '.csv', '.tsv'))}"
    path.write_bytes(content)
    column = draw.one(("a", "label", "nobody")) if draw.chance(0.15) else ""
    if column:
        trial.log.append(f"column {column}")
    with refusing(trial, path):
        found = read_samples(path, types, request=Request(column=column))
    due = _by_python(content.decode("utf-8-sig"), mark)
    if found.count != len(found.arrays["x"]) or found.count not in (len(due), len(due) - 1):
        raise Finding("read otherwise", f"{found.count} samples of {len(due)} rows")
    for row, cells in zip(found.arrays["x"], due[len(due) - found.count :], strict=True):
        numbers = [
            float(cell) for at, cell in enumerate(cells) if found.taken and _is_input(at, cells, found.taken, due)
        ]
        if not np.array_equal(np.asarray(row).reshape(-1), np.array(numbers).astype(np.asarray(row).dtype)):
            raise Finding("read otherwise", f"a row is {row.tolist()}, not {numbers}")
    return "equal to Python's reader"


def _number(draw: Draw, whole: bool) -> str:
    """A finite number as text."""
    return str(draw.number(-9, 9)) if whole else f"{draw.floating():g}".replace("nan", "1").replace("inf", "2")


def _is_input(at: int, cells: list[str], taken: object, due: list[list[str]]) -> bool:
    """Tell the input's columns from the target's."""
    name = due[0][at] if taken.headings else str(at + 1)  # type: ignore[attr-defined]
    return name != taken.target  # type: ignore[attr-defined]


def _by_python(text: str, mark: str) -> list[list[str]]:
    """The cells of each row that has any."""
    csv.field_size_limit(1 << 24)
    first = re.sub('"[^"]*"', "", text.strip("\r\n ")).split("\n")[0]
    marks = [m for m in ",;\t" if m in first]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=marks[0] if marks else mark, skipinitialspace=True)
    rows = [[cell.strip() for cell in row] for row in lines]
    return [row for row in rows if any(row) or len(row) > 1]


@edits_of("table")
def cell_changed(rows: list[list[str]], draw: Draw) -> None:
    """Another cell."""
    if rows:
        row = draw.one(rows)
        row[draw.number(0, len(row) - 1) :][:1] = [draw.one((*CELLS, draw.one(HOSTILE)))]
        row[draw.number(0, max(len(row) - 1, 0))] = draw.one((*CELLS, draw.one(HOSTILE)))


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
        row[at] = draw.one(
            (f'"{row[at]}"', f'"{row[at]}', f'"{row[at]},"', f'"{row[at]}\n"', f'{row[at]}"', f' "{row[at]}" ')
        )


@kind(2)
def array(trial: Trial) -> str:
    """A npy file of samples: its header's text, its bytes, and other files under its name."""
    draw = trial.draw("which")
    values = draw.array((ROWS, WIDTH)).astype(draw.one(("<f4", "<f8", ">f4", "<f2")))
    sink = io.BytesIO()
    np.lib.format.write_array(sink, values, draw.one(((1, 0), (2, 0), (3, 0))))
    content = sink.getvalue()
    if draw.chance(0.5):
        text = [content]
        trial.edit("header", text)
        content = text[0]
    if draw.chance(0.4):
        content = damage(trial, content)
    path, target = trial.case / "x.npy", trial.case / "labels.npy"
    path.write_bytes(content)
    np.save(target, np.arange(ROWS) % 3)
    with refusing(trial, path, target):
        found = read_samples(path, TYPES, target=target)
    due = np.load(io.BytesIO(content), allow_pickle=False)
    same_arrays({"x": found.arrays["x"].reshape(-1)}, {"x": due.astype(np.float32).reshape(-1)})
    return "equal to numpy's reader"


HEADERS = (
    "(",
    ")",
    "'",
    "{",
    "}",
    ",",
    "\\",
    "\0",
    "None",
    "1<<40",
    "-1",
    "x",
    "[]",
    "(1,)*60",
    "lambda:0",
    "__import__('os')",
)


@edits_of("header")
def header_word(text: list[bytes], draw: Draw) -> None:
    """Another word at a place of the header, which keeps its length."""
    word, at = draw.one(HEADERS).encode(), draw.number(8, min(110, max(len(text[0]) - 1, 8)))
    text[0] = text[0][:at] + word + text[0][at + len(word) :]


@edits_of("header")
def header_shape(text: list[bytes], draw: Draw) -> None:
    """Another shape, type or order."""
    shapes = (
        b"(6, 5)",
        b"(4, 6)",
        b"(24, )",
        b"(-6,4)",
        b"(6, 4,",
        b"6     ",
        b"(2**9)",
        b"(6,4.)",
        b"()    ",
        b"(0, 4)",
    )
    kinds = (b"'|O'", b"'<c8", b"'>f4'", b"'<U1'", b"'|V4'", b"'<f4", b"[('')]"[:5])
    text[0] = (
        text[0].replace(b"(6, 4)", draw.one(shapes), 1) if draw.chance(0.6) else _other_kind(text[0], draw.one(kinds))
    )


def _other_kind(content: bytes, kind: bytes) -> bytes:
    at = content.find(b"'descr': ") + len(b"'descr': ")
    return content[:at] + kind + content[at + len(kind) :]


@edits_of("header")
def another_file(text: list[bytes], draw: Draw) -> None:
    """Bytes of other formats under the name of an npy file."""
    sink = io.BytesIO()
    np.savez(sink, allow_pickle=False, x=np.zeros((ROWS, WIDTH), np.float32))
    text[0] = draw.one((sink.getvalue(), b"", b"PK", b"\x93NUMPY", b"\x80\x04N.", b"[1, 2]"))


@kind(3)
def tensors(trial: Trial) -> str:
    """A safetensors file of samples: its header as JSON, and its bytes."""
    draw = trial.draw("which")
    arrays = {"x": draw.array((ROWS, WIDTH)), "labels": (np.arange(ROWS) % 3).astype(draw.one(("<i8", "<i4", "u1")))}
    content = safetensors_bytes(arrays, {"who": "me"} if draw.chance(0.5) else None)
    if draw.chance(0.6):
        length = int.from_bytes(content[:8], "little")
        holder = [json.loads(content[8 : 8 + length])]
        trial.edit("artefact", holder if draw.chance(0.2) else holder[0])
        text = json.dumps(holder[0], ensure_ascii=draw.chance(0.8)).encode("utf-8", "surrogatepass")
        content = len(text).to_bytes(8, "little") + text + content[8 + length :]
    if draw.chance(0.3):
        content = damage(trial, content)
    path = trial.case / "s.safetensors"
    path.write_bytes(content)
    with refusing(trial, path):
        found, _ = read_safetensors(path)
    same_arrays(found, _by_json(content))
    with refusing(trial, path), warnings.catch_warnings():
        samples = read_samples(path, TYPES, warn=lambda _: None)
    return f"equal to its header, {min(samples.count, 1)} samples"


def _by_json(content: bytes) -> dict[str, np.ndarray]:
    """The arrays as the header says, which together are all that is behind it."""
    length = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop(METADATA, None)
    found = {}
    covered = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if begin != covered:
            raise Finding("read otherwise", f"an array begins at {begin}, and {covered} B are before it")
        covered = end
    if covered != len(body):
        raise Finding("read otherwise", f"arrays cover {covered} of {len(body)} B")
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = np.dtype(DTYPES[entry["dtype"]])
        if end - begin != math.prod(entry["shape"]) * dtype.itemsize:
            raise Finding("read otherwise", f"{name!r}: {entry}")
        found[name] = np.frombuffer(body[begin:end], dtype).reshape(entry["shape"])
    return found


PIXELS = {"x": TensorType("float32", (2, 3, 5, 4)), "labels": TensorType("int32", (2,))}


@cache
def _pictures() -> tuple[tuple[str, bytes], ...]:
    """Images of five rows by four columns in several forms, and some of another size."""
    from PIL import Image

    draw, found = Draw("images"), []
    for mode, form in (
        ("RGB", "png"),
        ("L", "png"),
        ("RGB", "jpeg"),
        ("L", "jpeg"),
        ("P", "png"),
        ("1", "png"),
        ("RGBA", "png"),
    ):
        for width in (4, 4, 3):
            pixels = np.frombuffer(draw.bytes(5 * width * 3), np.uint8).reshape(5, width, 3)
            sink = io.BytesIO()
            Image.fromarray(pixels, "RGB").convert(mode).save(sink, form)
            found.append((form, sink.getvalue()))
    return tuple(found)


@kind(2)
def images(trial: Trial) -> str:
    """A folder of images: bytes of one, other things in it, and names."""
    draw, root = trial.draw("which"), trial.case / "images"
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
    right = [(form, content) for at, (form, content) in enumerate(_pictures()) if at % 3 < 2]
    for number in range(4):
        form, content = draw.one(right)
        (root / ("cat", "dog")[number % 2] / f"{number}.{form}").write_bytes(content)
    path = draw.one(sorted(root.glob("*/*")))
    if draw.chance(0.5):
        path.write_bytes(damage(trial, path.read_bytes()))
    if draw.chance(0.5):
        trial.edit("folder", root, trial.secret)
    with refusing(trial, root, path, *root.rglob("*")):
        found = read_samples(root, PIXELS)
    seen = (p for p in root.glob("*/*") if not any(part.startswith(".") for part in (p.name, p.parent.name)))
    files = sorted(seen, key=lambda p: (p.parent.name, p.name))
    due = np.stack([_by_pillow(file) for file in files])
    same_arrays({"x": found.arrays["x"]}, {"x": due})
    labels = [found.classes.index(file.parent.name) for file in files]
    if found.arrays["labels"].reshape(-1).tolist() != labels:
        raise Finding("read otherwise", f"labels {found.arrays['labels'].tolist()}, not {labels}")
    return "equal to Pillow's pixels"


def _by_pillow(path: Path) -> np.ndarray:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path) as image:
            if image.size != (4, 5):
                raise Finding("read otherwise", f"an image has {image.size}")
            pixels = np.asarray(image.convert("RGB"), np.float32)
    return np.ascontiguousarray((pixels / np.float32(255)).transpose(2, 0, 1))


@edits_of("folder")
def entry_added(root: Path, secret: Path, draw: Draw) -> None:
    """A file, folder, link or link to itself, among classes or images."""
    home = draw.one((root, root / "cat", root / "dog"))
    path = home / draw.one(("x.png", "x", "Z.JPG", ".hidden", "x.txt", draw.one(("a\nb.png", "\x1b[31m.png", "é.png"))))
    if path.exists() or path.is_symlink() or not home.is_dir():
        return
    match draw.number(0, 6):
        case 0:
            path.symlink_to(path.name)
        case 1:
            path.symlink_to(secret)
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to("nowhere")
        case 4:
            path.symlink_to("..")
        case 5:
            path.write_bytes(b"")
        case _:
            path.write_bytes(draw.one(_pictures())[1])


@edits_of("folder")
def entry_removed(root: Path, secret: Path, draw: Draw) -> None:
    """An image less, or one under another name."""
    files = sorted(path for path in root.glob("*/*") if path.is_file())
    if files:
        path = draw.one(files)
        path.rename(path.with_suffix(draw.one((".png", ".jpg", ".JPEG", ".bmp", "")))) if draw.chance(
            0.6
        ) else path.unlink()


@edits_of("folder")
def entry_of_another_form(root: Path, secret: Path, draw: Draw) -> None:
    """An image of another size, form or mode under a name that is there."""
    files = sorted(path for path in root.glob("*/*") if path.is_file())
    if files:
        draw.one(files).write_bytes(draw.one(_pictures())[1])
