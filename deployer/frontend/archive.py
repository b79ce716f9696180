"""Npz archives: the sizes in their headers are checked before any array is loaded."""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from deployer.core.errors import FileProblem
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array

Arrays = dict[str, Array]

_DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, AttributeError, TypeError, RuntimeError, MemoryError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, OverflowError),
)
"""What numpy and zipfile raise on damaged archives, by trial."""
_HEADER = 1 << 16
"""Bytes of a member's header at most; numpy itself takes 10 000 characters."""
_HINT = "export the case again"


def read_npz(path: Path, hint: str = "export the case again: it holds inputs.npz and outputs.npz") -> Arrays:
    """All arrays of a file, in its order; raises FileProblem if it is missing, damaged, too large or no npz archive.

    `hint` is the way out if it is missing.
    """
    if not path.is_file():
        raise FileProblem(f"{path} does not exist", hint=hint)
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive)
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except _DAMAGE as error:
        facts = [("size", f"{size} B"), ("cause", " ".join(str(error).split())[:200])]
        raise FileProblem(f"{path} is truncated or not an npz archive of numbers", facts, _HINT) from None


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Member names are distinct, all members fit the limit, and each has the bytes that its array header declares."""
    members = archive.infolist()
    for name, count in Counter(member.filename for member in members).items():
        if count > 1:
            raise FileProblem(f"{path} holds {name!r} {count} times", hint=_HINT)
    total = sum(member.file_size for member in members)
    if total > ARCHIVE_BYTES:
        facts = [("unpacked", f"{total} B"), ("at most", f"{ARCHIVE_BYTES} B")]
        raise FileProblem(f"{path} is too large", facts, "fewer or smaller samples")
    for member in members:
        header_bytes = _header_bytes(archive, member)
        if header_bytes != member.file_size:
            facts = [("header says", f"{header_bytes} B"), ("stored", f"{member.file_size} B")]
            raise FileProblem(f"{path}: {member.filename!r} is not as long as its header says", facts, _HINT)


def _header_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Bytes of a member by its header, header included; raises ValueError if that declares no array of numbers."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        start = stream.tell()
        length = int.from_bytes(stream.read(2 if version == (1, 0) else 4), "little")
        if length > _HEADER:
            raise ValueError(f"the header of {member.filename!r} has {length} B")
        stream.seek(start)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.kind not in "fiub" or any(n < 0 for n in shape):
            raise ValueError(f"{member.filename!r} holds {dtype}{list(shape)}, no numbers")
        return stream.tell() + math.prod(shape) * dtype.itemsize
