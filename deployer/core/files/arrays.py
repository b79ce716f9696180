"""Arrays of numbers from npz archives and npy files: the sizes in their headers are checked before any is loaded."""

import math
import zipfile
from collections import Counter
from pathlib import Path
from typing import IO

import numpy as np

from deployer.core.errors import FileProblem
from deployer.core.files.reading import check_file, damage
from deployer.core.limits import ARCHIVE_BYTES, RANK
from deployer.core.operator import Array

Arrays = dict[str, Array]

_HEADER = 1 << 16
"""Bytes of an array's header at most; numpy itself takes 10 000 characters."""
_AGAIN = "export the case again"
_FEWER = "fewer or smaller samples"
_MEMBER = ".npy"
"""The suffix of a member's name, which is none of its array's."""
_ZIP = b"PK"
"""The bytes that every zip archive begins with."""


def read_npz(path: Path, hint: str = "export the case again: it holds inputs.npz and outputs.npz") -> Arrays:
    """All arrays of a file, in its order; raises FileProblem if it is missing, damaged, too large or no npz archive.

    `hint` is the way out if it is missing.
    """
    size = check_file(path, ARCHIVE_BYTES, hint, _FEWER)
    with damage(f"{path} is truncated or not an npz archive of numbers", _AGAIN, [("size", f"{size} B")]):
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive)
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}


def read_npy(path: Path, hint: str = "the path of an .npy file") -> Array:
    """The array of a file; raises FileProblem if it is missing, damaged, too large or holds no numbers."""
    size = check_file(path, ARCHIVE_BYTES, hint, _FEWER)
    cause = f"{path} is truncated or no .npy array of numbers"
    with damage(cause, "write it again", [("size", f"{size} B")]), path.open("rb") as file:
        if file.read(len(_ZIP)) == _ZIP:
            raise FileProblem(
                f"{path} is an archive, not a single array", hint="name it .npz if it has an array per input"
            )
        file.seek(0)
        expected = _array_bytes(file, path.name)
        if expected != size:
            raise ValueError(f"by its header it has {expected} B")
        file.seek(0)
        array: Array = np.load(file, allow_pickle=False)
        return array


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Member names are distinct, all members fit the limit, and each has the bytes that its array header declares."""
    members = archive.infolist()
    # numpy names the arrays of "x" and of "x.npy" alike, and has the second one for both
    for name, count in Counter(member.filename.removesuffix(_MEMBER) for member in members).items():
        if count > 1:
            raise FileProblem(f"{path} holds {name!r} {count} times", hint=_AGAIN)
    total = sum(member.file_size for member in members)
    if total > ARCHIVE_BYTES:
        facts = [("unpacked", f"{total} B"), ("at most", f"{ARCHIVE_BYTES} B")]
        raise FileProblem(f"{path} is too large", facts, _FEWER)
    for member in members:
        with archive.open(member) as stream:
            header_bytes = _array_bytes(stream, repr(member.filename))
        if header_bytes != member.file_size:
            facts = [("header says", f"{header_bytes} B"), ("stored", f"{member.file_size} B")]
            raise FileProblem(f"{path}: {member.filename!r} is not as long as its header says", facts, _AGAIN)


def _array_bytes(stream: IO[bytes], name: str) -> int:
    """Bytes of an array by its header, header included; raises ValueError if that declares no array of numbers."""
    version = np.lib.format.read_magic(stream)
    start = stream.tell()
    length = int.from_bytes(stream.read(2 if version == (1, 0) else 4), "little")
    if length > _HEADER:
        raise ValueError(f"the header of {name} has {length} B")
    stream.seek(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(stream)
    except MemoryError:  # so Python's parser says it; the header itself has few bytes
        raise ValueError(f"the header of {name} is nested too deeply") from None
    if dtype.kind not in "fiub" or any(n < 0 for n in shape) or len(shape) > RANK:
        raise ValueError(f"{name} holds {dtype}{list(shape)}, not numbers")
    return stream.tell() + math.prod(shape) * dtype.itemsize
