"""Frozen dataclasses to JSON and back, exactly: what every stage hands to the next.

An artefact file is `{"kind", "version", "digest", "body"}`; the digest is over the body, so an edited file is known as
edited, and there is no time stamp in it: the same artefact is the same bytes.
"""

import base64
import dataclasses
import hashlib
import json
import math
import types
import typing
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from deployer.errors import FileProblem
from deployer.safe_text import json_text

T = TypeVar("T")
VERSION = 1


def to_jsonable(value: Any) -> Any:
    """Turn dataclasses, tuples, dicts, bytes and scalars into what `json` prints; a dataclass carries its name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"_": type(value).__name__, **fields}
    if isinstance(value, (tuple, list)):
        return [to_jsonable(v) for v in value]
    if isinstance(value, dict):
        return {k: to_jsonable(value[k]) for k in value}
    if isinstance(value, bytes):
        return {"_": "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"_": "float", "text": str(value)}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_jsonable(expected: Any, value: Any) -> Any:
    """Rebuild a value of the annotated type `expected`; TypeError, KeyError or ValueError where it does not fit."""
    origin, args = get_origin(expected), get_args(expected)
    if expected is Any:
        return value
    if origin in (Union, types.UnionType):
        return _from_union(args, value)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"expected a list, found {value!r}")
        item = args[0] if len(args) == 2 and args[1] is Ellipsis else None
        if item is not None:
            return tuple(from_jsonable(item, v) for v in value)
        if len(args) != len(value):
            raise ValueError(f"expected {len(args)} items, found {len(value)}")
        return tuple(from_jsonable(a, v) for a, v in zip(args, value, strict=True))
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"expected a table, found {value!r}")
        return {k: from_jsonable(args[1], v) for k, v in value.items()}
    if origin is typing.Literal:
        if value not in args:
            raise ValueError(f"{value!r} is none of {args}")
        return value
    if expected is bytes:
        return base64.b64decode(value["base64"])
    if dataclasses.is_dataclass(expected):
        return _from_fields(typing.cast(type, expected), value)
    if expected is float and isinstance(value, dict):
        return float(value["text"])
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"expected {expected.__name__}, found {value!r}")
    return value


def _from_union(options: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in options:
        return None
    if isinstance(value, dict) and "_" in value:
        for option in options:
            if getattr(option, "__name__", "") == value["_"]:
                return from_jsonable(option, value)
        raise ValueError(f"{value['_']!r} is none of {[getattr(o, '__name__', str(o)) for o in options]}")
    for option in options:
        if option is type(None) or dataclasses.is_dataclass(option):
            continue
        try:
            return from_jsonable(option, value)
        except (TypeError, ValueError, KeyError):
            continue
    raise TypeError(f"{value!r} is none of {options}")


def _from_fields(cls: type, value: Any) -> Any:
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    unknown = sorted(set(value) - {"_"} - set(names))
    if unknown:
        raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}")
    return cls(**{name: from_jsonable(hints[name], value[name]) for name in names})


def dumps(artefact: Any) -> str:
    """The artefact's file text: sorted by construction, one trailing newline."""
    body = to_jsonable(artefact)
    envelope = {"kind": type(artefact).__name__, "version": VERSION, "digest": digest(artefact), "body": body}
    return json_text(envelope, allow_nan=False)


def digest(artefact: Any) -> str:
    """SHA-256 over the canonical JSON of the artefact, 16 hexadecimal digits."""
    text = json.dumps(to_jsonable(artefact), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kind_of(path: Path) -> str:
    """The kind an artefact file declares."""
    return str(_envelope(path)["kind"])


def load(cls: type[T], path: Path) -> T:
    """Read an artefact file of the given kind; FileProblem where it is something else."""
    envelope = _envelope(path)
    if envelope["kind"] != cls.__name__ or envelope["version"] != VERSION:
        raise FileProblem(
            f"{path} is a {envelope['kind']} {envelope['version']}, not a {cls.__name__} {VERSION}",
            hint="dump it again with this version of the deployer",
        )
    try:
        return typing.cast(T, from_jsonable(cls, envelope["body"]))
    except (TypeError, ValueError, KeyError) as error:
        cause = f"a field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileProblem(f"{path} does not hold a valid {cls.__name__}", [("cause", cause)]) from error


def _envelope(path: Path) -> dict[str, Any]:
    try:
        envelope = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise FileProblem(f"{path} does not exist") from error
    except (ValueError, OSError, RecursionError) as error:
        raise FileProblem(f"{path} is not a JSON artefact", [("cause", str(error))]) from error
    if not isinstance(envelope, dict) or not {"kind", "version", "body"} <= set(envelope):
        raise FileProblem(
            f"{path} is JSON, but no artefact of the deployer", hint="give a file that --dump-artefacts wrote"
        )
    return envelope
