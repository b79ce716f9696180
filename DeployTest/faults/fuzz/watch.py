"""An audit hook that records and refuses writes outside of the permitted folders, and reads of secret files."""

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 1, "os.symlink": 2, "os.link": 2}
_CHANGES |= {"os.truncate": 1, "os.chmod": 1, "shutil.rmtree": 1, "shutil.move": 2, "os.chown": 1, "os.utime": 1}
"""Audit events that change files, with how many of their first arguments are paths."""
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "socket.connect")


_HARMLESS = ("uname",)
"""Programs that Python's own `platform` starts where a report says what machine it is."""


class Reached(BaseException):
    """The input was accepted as far as the C compiler."""


class StrayError(PermissionError):
    """Something outside of what an input may touch was touched; the operation did not take place."""


@dataclass
class Watch:
    """The folders open to writes, the user's files, the secret folder, and whether programs may start.

    Where they may not, the start of one of `tools` is Reached: what comes before it has been judged.
    """

    writable: tuple[str, ...] = ()
    precious: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    programs: bool = True
    tools: frozenset[str] = frozenset()
    active: bool = False
    seen: list[str] = field(default_factory=list)

    def _inside(self, path: str, folders: Sequence[str]) -> bool:
        return any(path == f or path.startswith(f"{f}/") for f in folders)

    def _write(self, argument: Any) -> None:
        if isinstance(argument, int) or argument is None:
            return
        path = os.path.abspath(os.fsdecode(argument))
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if real == "/dev/null" or real.startswith("/proc/self/"):
            return
        if not self._inside(real, self.writable) or self._inside(real, self.precious):
            self._note(f"writes {path}")

    def _read(self, argument: Any) -> None:
        if not isinstance(argument, int) and self._inside(os.path.realpath(os.fsdecode(argument)), self.secret):
            self._note(f"reads {os.fsdecode(argument)}")

    def _note(self, text: str) -> None:
        self.seen.append(text)
        raise StrayError(13, "not allowed to an input under test", text.split(" ", 1)[1])

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Judge one audit event."""
        if name == "open":
            mode, flags = arguments[1], arguments[2]
            writes = (flags or 0) & _WRITES or (isinstance(mode, str) and set(mode) & set("wax+"))
            (self._write if writes else self._read)(arguments[0])
        elif name in _CHANGES:
            for path in arguments[: _CHANGES[name]]:
                self._write(path)
        elif name in _PROCESSES and not self.programs and arguments[0] not in _HARMLESS:
            if arguments[0] in self.tools:
                raise Reached
            self._note(f"starts {str(arguments[0])[:80]}")


_current = Watch()


def _hook(name: str, arguments: tuple[Any, ...]) -> None:
    watch = _current
    if not watch.active:
        return
    watch.active = False
    try:
        watch.event(name, arguments)
    finally:
        watch.active = True


_installed = False


@contextmanager
def watching(
    writable: Sequence[Path],
    precious: Sequence[Path] = (),
    secret: Sequence[Path] = (),
    programs: bool = False,
    tools: Collection[str] = (),
) -> Iterator[list[str]]:
    """Watch the body; yields the list of what it touched beyond that."""
    global _current, _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True

    def names(paths: Sequence[Path]) -> tuple[str, ...]:
        return tuple(os.path.realpath(p) for p in paths)

    before = _current
    _current = Watch(names(writable), names(precious), names(secret), programs, frozenset(tools), active=True)
    try:
        yield _current.seen
    finally:
        _current = before
