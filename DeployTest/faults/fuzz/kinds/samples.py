"""Samples in files that are no archives: tables of text, npy and safetensors files, and folders of images."""

import io
import json
import math
import warnings
import zipfile
from typing import Any

import numpy as np

from deployer.core.errors import DeployerWarning
from deployer.core.files.arrays import read_npz
from deployer.core.ir import TensorType
from deployer.fitting.data.sources import read_samples
from deployer.fitting.safetensors import DTYPES, METADATA, read_safetensors, safetensors_bytes
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.faults.fuzz.edits.register import edits_of
from DeployTest.faults.fuzz.register import kind
from DeployTest.faults.fuzz.told import refusing, same_arrays
from DeployTest.faults.fuzz.trial import Finding, Trial

from .graph import damage

WIDTH, ROWS = 4, 6
TYPES = {"x": TensorType("float32", (2, WIDTH)), "labels": TensorType("int32", (2,))}


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
    due = _by_numpy(content)
    with refusing(trial, path, target, right=_are_samples(due)):
        found = read_samples(draw.one((path, str(path))), TYPES, target=target)
    assert due is not None
    same_arrays({"x": found.arrays["x"].reshape(-1)}, {"x": due.astype(np.float32).reshape(-1)})
    return "equal to numpy's reader"


def _by_numpy(content: bytes) -> np.ndarray | None:
    """The array that numpy reads, if it has numbers and is all of the content."""
    stream = io.BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception:  # numpy's errors are of many kinds
        return None
    return found if found.dtype.kind in "fiub" and not stream.read(1) else None


def _are_samples(array: np.ndarray | None) -> bool | None:
    """Whether the rules take an array as samples; None where another rule decides."""
    if array is None:
        return False
    if array.shape != (ROWS, WIDTH):
        return None
    most = float(np.finfo(np.float32).max)
    return array.dtype.kind == "f" and bool((np.abs(array.astype(np.float64)) <= most).all())


@kind(2)
def archive(trial: Trial) -> str:
    """An npz file: its members, their names and headers, and its bytes."""
    draw, path = trial.draw("which"), trial.case / "s.npz"
    members = [[f"{name}.npy", _npy(draw.array((2, 3)).astype(draw.one(("<f4", "<i8", "|b1", "u1"))))] for name in "ab"]
    if draw.chance(0.8):
        trial.edit("members", members)
    sink = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(sink, "w", draw.one((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z,
    ):
        warnings.simplefilter("ignore")
        for name, content in members:
            z.writestr(zipfile.ZipInfo(str(name)), content)
    content = damage(trial, sink.getvalue()) if draw.chance(0.3) else sink.getvalue()
    path.write_bytes(content)
    names = [str(name).removesuffix(".npy") for name, _ in members]
    read = [_by_numpy(bytes(each)) for _, each in members]
    right = len({*names}) == len(names) and all(each is not None for each in read)
    with refusing(trial, path, right=None if content != sink.getvalue() else right):
        found = read_npz(path)
    if content == sink.getvalue() and list(found) != names:
        raise Finding("read otherwise", f"the names are {list(found)}, not {names}")
    with zipfile.ZipFile(path) as z:
        inside = {info.filename.removesuffix(".npy"): _by_numpy(z.read(info)) for info in z.infolist()}
    same_arrays(found, {name: np.array([]) if each is None else each for name, each in inside.items()})
    if "a" in found and found["a"].dtype.kind == "f" and found["a"].size and found["a"].ndim:
        taken = {"a": TensorType("float32", (1, *found["a"].shape[1:]))}
        with refusing(trial, path, right=None), warnings.catch_warnings():
            samples = read_samples(path, taken, warn=lambda _: None)
        same_arrays({"a": samples.arrays["a"].reshape(found["a"].shape)}, {"a": found["a"].astype(np.float32)})
    return "equal to its members"


def _npy(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.lib.format.write_array(sink, array)
    return sink.getvalue()


@edits_of("members")
def member_added(members: list[list[Any]], draw: Draw) -> None:
    """A member more, twice, under a name that another has without its suffix, or less."""
    name, content = draw.one(members) if members else ["a.npy", _npy(np.zeros(3))]
    if draw.chance(0.2) and members:
        members.pop(draw.number(0, len(members) - 1))
    else:
        other = draw.one((name, str(name).removesuffix(".npy"), "c.npy", "c", "A.npy", f"d/{name}"))
        members.insert(draw.number(0, len(members)), [other, draw.one((content, _npy(np.arange(3))))])


@edits_of("members")
def member_length(members: list[list[Any]], draw: Draw) -> None:
    """A member some bytes longer or shorter, empty, or with a header that says so."""
    if members:
        row = draw.one(members)
        more = bytes(draw.one((1, 4, 8)))
        rank = _npy(np.zeros((1,) * draw.one((31, 32))))
        headed = [bytes(row[1])]
        draw.one((header_shape, header_word))(headed, draw)
        shapes = ((0,), (2, 0), ())
        row[1] = draw.one(
            (row[1] + more, row[1][: -len(more)], b"", b"text", rank, headed[0], _npy(np.zeros(draw.one(shapes))))
        )


@edits_of("members")
def members_moved(members: list[list[Any]], draw: Draw) -> None:
    """The members in another order, or of another type."""
    draw.random.shuffle(members)
    if members and draw.chance(0.7):
        kinds = ("complex64", "U4", "S3", "M8[s]", "f8", "f2", ">f4", "i2", "u8", "V4")
        draw.one(members)[1] = _npy(np.zeros((2, 3)).astype(draw.one(kinds)))


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
        b"(6, 3)",
        b"(7, 4)",
        b"(6,4) ",
        b"(4,-6)",
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
    if draw.chance(0.5):
        arrays["rate"] = draw.array(())
    bare = draw.chance(0.15)  # a header and no byte behind it
    if bare:
        arrays = {name: array[:0] for name, array in arrays.items() if array.ndim and draw.chance(0.5)}
        trial.log.append(f"{len(arrays)} arrays, all of them empty")
    content = safetensors_bytes(arrays, {"who": "me"} if draw.chance(0.5) else None)
    if arrays and draw.chance(0.75):
        length = int.from_bytes(content[:8], "little")
        holder = [json.loads(content[8 : 8 + length])]
        which = draw.one(("artefact", "packed", "packed"))
        trial.edit(which, holder if which == "artefact" and draw.chance(0.2) else holder[0])
        text = json.dumps(holder[0], ensure_ascii=draw.chance(0.8)).encode("utf-8", "surrogatepass")
        content = len(text).to_bytes(8, "little") + text + content[8 + length :]
    if draw.chance(0.6 if bare else 0.2):
        trial.edit("length", holder := [content])
        content = holder[0]
    if draw.chance(0.2):
        content = damage(trial, content)
    path = trial.case / "s.safetensors"
    path.write_bytes(content)
    due = by_json(content)
    with refusing(trial, path, right=due is not None):
        found, metadata = read_safetensors(path)
    assert due is not None
    same_arrays(found, due[0])
    if list(found) != list(due[0]) or metadata != due[1]:
        raise Finding("read otherwise", f"{list(found)} and {metadata}, not {list(due[0])} and {due[1]}")
    warned: list[DeployerWarning] = []
    with refusing(trial, path), warnings.catch_warnings():
        samples = read_samples(draw.one((path, str(path))), TYPES, warn=warned.append)
    spare = [name for name in due[0] if name not in TYPES]
    if bool(spare) != any("does not take" in each.cause for each in warned):
        raise Finding("read otherwise", f"of {len(warned)} warnings, where {spare!r:.200} are not read")
    if samples.count == ROWS and due[0]["x"].shape == (ROWS, WIDTH):
        same_arrays({"x": samples.arrays["x"]}, {"x": due[0]["x"].astype(np.float32)})
    return f"equal to its header, {min(samples.count, 1)} samples"


@edits_of("packed")
def spans_moved(header: dict[str, Any], draw: Draw) -> None:
    """Bytes of an array one further, two arrays exchanged, an empty one between them, or one of no shape."""
    names = [name for name in header if name != METADATA]
    name, other = draw.one(names), draw.one(names)
    spans = header[name]["data_offsets"]
    if not isinstance(spans, list) or len(spans) != 2:
        return
    match draw.number(0, 4):
        case 0:
            spans[draw.number(0, 1)] += draw.one((-1, 1, 4, -4))
        case 1:
            header[name]["data_offsets"], header[other]["data_offsets"] = header[other]["data_offsets"], spans
        case 2:
            at = draw.one((*spans, spans[0] + 4))
            header["none"] = {"dtype": "F32", "shape": draw.one(([0], [2, 0])), "data_offsets": [at, at]}
        case 3:
            shape = header[name]["shape"]
            shapes = ([], [1] * 32, [1] * 33) if not isinstance(shape, list) else (shape[::-1], [1] * 31 + shape)
            header[name]["shape"] = draw.one((*shapes, *(["", {}] if shape == [] else [])))
        case _:
            header["again"] = dict(header[name])


@edits_of("packed")
def entries_moved(header: dict[str, Any], draw: Draw) -> None:
    """The header's entries in another order."""
    rows = list(header.items())
    draw.random.shuffle(rows)
    header.clear()
    header.update(rows)


@edits_of("packed")
def entry_changed(header: dict[str, Any], draw: Draw) -> None:
    """Another type, shape or key of an entry, or other metadata."""
    entry = header[draw.one([name for name in header if name != METADATA])]
    match draw.number(0, 3):
        case 0:
            entry["dtype"] = draw.one((*DTYPES, "F8_E4M3", "f32", 1, []))
        case 1:
            entry["shape"] = draw.one(([24], [6, 4.0], [True, 24], [-6, -4], [2, 3, 4], None, [6, 5], 24, [1, 6, 4]))
        case 2:
            entry[draw.one(("dtype", "shape", "data_offsets"))] = draw.one(([0], [0, 1, 2], None, "F32", [0, 96]))
        case _:
            header[METADATA] = draw.one(({"a": 1}, [], None, {"a": [1]}, {}, "x", {"b": "1", "a": "2"}))


@edits_of("length")
def length_moved(holder: list[bytes], draw: Draw) -> None:
    """A header's length that is a little more or less, or all there is; bytes more or less at the end."""
    content = holder[0]
    length = int.from_bytes(content[:8], "little")
    told = draw.one((length + 1, length - 1, len(content) - 8, len(content) - 7, 0, 1 << 24, (1 << 24) + 1))
    changed = (
        (told % (1 << 64)).to_bytes(8, "little") + content[8:],
        content + b"\0",
        content[:-1],
        content[:8],
        content[:7],
    )
    holder[0] = draw.one((changed[0], *changed))


def by_json(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]] | None:
    """The arrays as the header says, which are all that is behind it, and its texts; None for anything else."""
    length = int.from_bytes(content[:8], "little")
    body = content[8 + length :]
    if len(content) < 8 or length > len(content) - 8:
        return None
    try:
        header = strict_json(content[8 : 8 + length].decode())
    except (ValueError, RecursionError):
        return None
    metadata = header.pop(METADATA, {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        return None
    spans, found = [], {}
    for name, entry in header.items():
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= {*entry}:
            return None
        shape, offsets, dtype = entry["shape"], entry["data_offsets"], entry["dtype"]
        lists = isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2 and len(shape) <= 32
        if not lists or not all(type(n) is int and n >= 0 for n in (*shape, *offsets)):
            return None
        if not isinstance(dtype, str) or dtype not in DTYPES or offsets[1] > len(body):
            return None
        if offsets[1] - offsets[0] != math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize:
            return None
        spans.append(offsets)
        found[name] = np.frombuffer(body[slice(*offsets)], np.dtype(DTYPES[dtype])).reshape(shape)
    ends = [0, *(end for _, end in sorted(spans))]
    if ends != [*(begin for begin, _ in sorted(spans)), len(body)]:
        return None
    return found, {key: str(value) for key, value in metadata.items()}


def strict_json(text: str, nonfinite: bool = False) -> Any:
    """The value of a text in JSON; ValueError where a key comes twice, or a number is none that readers share."""
    value = json.loads(text, object_pairs_hook=_distinct, parse_constant=float if nonfinite else _refuse)
    if not _within(value, nonfinite):
        raise ValueError("a number is too large")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key.encode() for key, _ in pairs}) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _within(value: Any, nonfinite: bool) -> bool:
    """Whether all numbers in a value are such as JSON's readers share."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, float):
        return nonfinite or math.isfinite(value)
    return all(_within(item, nonfinite) for item in items) and (not isinstance(value, int) or abs(value) <= 2**53)
