"""Read input files as bytes, text, JSON or TOML; every failure becomes an error that names the file.

Every reader of a file that somebody else may have made goes through this folder. `content_of` refuses what is missing,
no regular file, or too large; within `damage` whatever a library raises for the bytes is the file's fault.
"""

import json
import lzma
import math
import os
import stat
import struct
import tokenize
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from deployer.core.errors import FileProblem, UserError, unreadable

DAMAGE = (
    *(
        OSError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
        SyntaxError,
        EOFError,
    ),
    *(AssertionError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
)
"""Kinds of exceptions of Python's and other libraries' readers for damaged bytes; a DeployerError is none of them.

Nor is MemoryError: where memory ends, nobody knows whether the file is damaged.
"""
LARGEST = 1 << 53
"""Largest magnitude of an integer: all readers of JSON can hold it, and sums of such fit 64 bits."""
CONFIGURATION_BYTES = 1 << 20
"""A larger file was written by no person: options, targets, boards."""
JSON_BYTES = 1 << 28
"""The largest artefacts, of 20 000 nodes, have a quarter of it."""
SHOWN = 200
"""Most characters of a library's words in a message."""


def cause_of(error: BaseException) -> str:
    """The message of a library's exception in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    system = error.strerror if isinstance(error, OSError) and error.strerror else ""
    return " ".join((system or str(error)).split())[:SHOWN] or type(error).__name__


@contextmanager
def damage(
    cause: str, hint: str = "", facts: Sequence[tuple[str, str]] = (), kind: type[UserError] = FileProblem
) -> Iterator[None]:
    """Within this context what a library raises for damaged bytes becomes an error of the user's with this cause.

    The body reads and interprets what a file holds, and nothing else: a fault of our own would be taken for the file's.
    MemoryError stays one, and says which file was being read.
    """
    try:
        yield
    except MemoryError as error:
        raise MemoryError(_unknown(cause, error)) from None
    except DAMAGE as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else cause_of(error)
        raise kind(cause, [*facts, ("cause", missing)], hint) from None


def _unknown(cause: str, error: MemoryError) -> str:
    """A message for the end of memory, which says what could not be found out."""
    request = " ".join(str(error).split())[:SHOWN]
    return f"{request}{'; ' * bool(request)}it is not known whether {cause}"


def real_path(path: Path) -> Path:
    """The path without links. Path.resolve raises for a link that leads to itself, which the system refuses by name."""
    return Path(os.path.realpath(path))


def check_file(path: Path, most: int, hint: str, smaller: str = "", kind: type[UserError] = FileProblem) -> int:
    """The bytes of a regular file; an error where there is none, or it has more than `most`.

    `hint` is the way out where it is missing, `smaller` where it is too large.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise kind(f"{path} does not exist", hint=hint) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise kind(f"{path} cannot be read", [("cause", cause_of(error))], hint) from None
    if not stat.S_ISREG(status.st_mode):
        raise kind(f"{path} is {'a folder' if stat.S_ISDIR(status.st_mode) else 'not a file'}", hint=hint)
    if status.st_size > most:
        facts = [("size", f"{status.st_size} B"), ("at most", f"{most} B")]
        raise kind(f"{path} is too large", facts, smaller or hint)
    return status.st_size


def content_of(path: Path, most: int, hint: str, smaller: str = "", kind: type[UserError] = FileProblem) -> bytes:
    """The bytes of a regular file; errors as `check_file` has them."""
    size = check_file(path, most, hint, smaller, kind)
    try:
        with path.open("rb") as file:
            content = file.read(size + 1)
    except MemoryError:
        raise MemoryError(f"{path} has {size} B") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > size:
        raise kind(f"{path} grew while it was read", [("size", f"{size} B at first")], "wait until it is complete")
    return content


def text_of(path: Path, most: int, hint: str, kind: type[UserError] = FileProblem) -> str:
    """The text of a file in UTF-8; errors as `check_file` has them."""
    content = content_of(path, most, hint, kind=kind)
    with damage(f"{path} is not text in UTF-8", hint, kind=kind):
        return content.decode()


def read_json(path: Path, what: str, hint: str, most: int = JSON_BYTES) -> Any:
    """The value of a file in JSON, which `what` names in the message where it is none."""
    content = content_of(path, most, hint)
    with damage(f"{path} is {what}", hint, [("size", f"{len(content)} B")]):
        return parse_json(content)


def parse_json(content: bytes | str, nonfinite: bool = False) -> Any:
    """The value of a text in JSON; an exception of DAMAGE where it is none, or says a key twice, or a number too large.

    NaN and infinities, which JSON does not have, are taken under `nonfinite`.
    """
    text = content.decode() if isinstance(content, bytes) else content
    constant = float if nonfinite else _no_number
    return json.loads(text, object_pairs_hook=_table, parse_constant=constant, parse_int=_integer, parse_float=_real)


def read_toml(path: Path, hint: str, kind: type[UserError] = FileProblem) -> dict[str, Any]:
    """The tables of a file in TOML."""
    return parse_toml(text_of(path, CONFIGURATION_BYTES, hint, kind), str(path), hint, kind)


def parse_toml(text: str, place: str, hint: str = "", kind: type[UserError] = FileProblem) -> dict[str, Any]:
    """The tables of a text in TOML; `place` is its file."""
    with damage(f"{place} is not TOML", hint, kind=kind):
        return tomllib.loads(text)


def own_toml(path: Path) -> dict[str, Any]:
    """The tables of a file of this package."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError where a key occurs twice or is not valid text."""
    table = dict(pairs)
    if len(table) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} is defined twice")
    for key in table:
        key.encode()
    return table


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _integer(text: str) -> int:
    if len(text) > len(str(LARGEST)) + 1 or abs(int(text)) > LARGEST:
        raise ValueError(f"{text[:30]} is beyond {LARGEST}")
    return int(text)


def _real(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text[:30]} is beyond float64")
    return float(text)
