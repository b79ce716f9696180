"""Calls of the operating system from the deployer: each way to one is a point, and one point of a run may fail once.

A point is the kind of the call and the lines of the deployer that lead to it. Files that Python opens are read and
written by objects of their own here, so that each read and write is a call that can fail.
"""

import builtins
import errno
import io
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deployer

PACKAGE = str(Path(deployer.__file__).resolve().parent)
ROOTS = (PACKAGE, *(str(Path(PACKAGE).parent / name) for name in ("tilers", "targets", "templates")))
ERRORS = {
    "open": (errno.EACCES, errno.EMFILE, errno.EIO, errno.ENOSPC, errno.EROFS),
    "read": (errno.EIO, errno.ESTALE),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EACCES, errno.EROFS),
    "unlink": (errno.EIO, errno.EACCES, errno.EROFS),
    "start": (errno.EAGAIN, errno.ENOMEM, errno.EMFILE),
}
"""The errors of each kind of call, of which a point has one by its digest."""


@dataclass
class Points:
    """The points of a run in the order in which they came, and the one that fails; `failed` says what it was told."""

    fails: str = ""
    seen: dict[str, None] = field(default_factory=dict)
    failed: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, kind: str, *paths: object) -> None:
        """A call comes by; OSError where its point is the one that fails, and fails for the first time."""
        way = _way()
        if not way:
            return
        point = f"{kind} {way}"
        with self.lock:
            self.seen.setdefault(point)
            if point != self.fails or self.failed:
                return
            choices = ERRORS[kind]
            number = choices[zlib.crc32(point.encode()) % len(choices)]
            self.failed = f"{errno.errorcode[number]} {' '.join(map(str, paths))}"
        first, *second = [os.fspath(p) if isinstance(p, os.PathLike) else p for p in paths] or [None]
        if not isinstance(first, str | bytes):
            raise OSError(number, os.strerror(number))
        raise OSError(number, os.strerror(number), first, None, *second)


def _way() -> str:
    """The lines of the deployer that lead here, the innermost first; empty where Python itself reads its modules."""
    lines, frame = [], sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return ""
        if name.startswith(ROOTS):
            lines.append(f"{os.path.relpath(name, Path(PACKAGE).parent)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(lines)


class _File(io.FileIO):
    """A file whose reads and writes are points."""

    points: Points

    def readinto(self, buffer: Any) -> int | None:
        """Read, unless this fails."""
        self.points.at("read")
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read all, unless this fails."""
        self.points.at("read")
        return super().readall()

    def read(self, size: int | None = -1) -> bytes:
        """Read some, unless this fails."""
        self.points.at("read")
        return super().read(-1 if size is None else size)

    def write(self, data: Any) -> int:
        """Write, unless this fails; a device that is full takes a part before it says so."""
        self.points.at("write")
        return super().write(data)


def _opened(points: Points, file: Any, mode: str, buffering: int, options: dict[str, Any]) -> Any:
    """A file as `open` gives it, over a raw one whose calls are points."""
    text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
    raw = _File(file, mode.replace("b", "").replace("t", ""), **options)
    raw.points = points
    if buffering == 0:
        return raw
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    if "+" in mode:
        stream: Any = io.BufferedRandom(raw, size)
    else:
        stream = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
    if "b" in mode:
        return stream
    wrapped = io.TextIOWrapper(stream, line_buffering=buffering == 1, **text)
    wrapped.mode = mode  # type: ignore[misc]
    return wrapped


@contextmanager
def failing(points: Points) -> Iterator[None]:
    """Within this context all such calls of the deployer come by `points`."""
    kept: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, call: Callable[..., Any]) -> None:
        kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, call)

    def counted(owner: Any, name: str, kind: str, paths: int) -> None:
        plain = getattr(owner, name)

        def call(*words: Any, **options: Any) -> Any:
            points.at(kind, *words[:paths])
            return plain(*words, **options)

        patch(owner, name, call)

    plain_open = builtins.open

    def opens(file: Any, mode: str = "r", buffering: int = -1, *words: Any, **options: Any) -> Any:
        points.at("open", *([] if isinstance(file, int) else [file]))
        options |= dict(zip(("encoding", "errors", "newline", "closefd", "opener"), words, strict=False))
        if not _way():
            return plain_open(file, mode, buffering, **options)
        return _opened(points, file, mode, buffering, options)

    for owner in (builtins, io):
        patch(owner, "open", opens)
    for name, kind, paths in (
        ("open", "open", 1),
        ("read", "read", 0),
        ("pread", "read", 0),
        ("write", "write", 0),
        ("pwrite", "write", 0),
        ("ftruncate", "write", 0),
        ("sendfile", "write", 0),
        ("fsync", "fsync", 0),
        ("rename", "rename", 2),
        ("replace", "rename", 2),
        ("symlink", "mkdir", 2),
        ("mkdir", "mkdir", 1),
        ("unlink", "unlink", 1),
        ("remove", "unlink", 1),
        ("rmdir", "unlink", 1),
    ):
        counted(os, name, kind, paths)
    counted(subprocess, "_fork_exec", "start", 0)
    counted(os, "posix_spawn", "start", 1)
    try:
        yield
    finally:
        for owner, name, plain in reversed(kept):
            setattr(owner, name, plain)
