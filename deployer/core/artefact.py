"""Conversion of artefacts, the frozen dataclasses that stages hand to each other, to JSON and back without loss.

An artefact file is `{"kind", "version", "digest", "body"}`. The digest covers the body, so an edit is detected. The
file has no time stamp, so the same artefact is the same bytes. Files come from outside, so anything but such JSON is
refused, and so are numbers that no artefact needs.
"""

import base64
import dataclasses
import hashlib
import json
import math
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from deployer.core.errors import FileProblem
from deployer.core.files.reading import damage, read_json
from deployer.core.safe_text import folded_json

T = TypeVar("T")
VERSION = 2
OUTSIDE_DIGEST = "outside digest"
"""Metadata key of a field that is left out of the digest, because it is no decision."""
IF_ANY = "if any"
"""Metadata key of a field that is left out of the file where it has its default."""
INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def to_jsonable(value: Any) -> Any:
    """Turn dataclasses, tuples, dicts, bytes and scalars into what `json` prints; a dataclass carries its name."""
    return _jsonable(value, {})


PLAIN = frozenset({str, int, bool, type(None)})
"""The types, but not their subclasses, that stay as they are."""


def _jsonable(value: Any, seen: dict[int, Any]) -> Any:
    """`to_jsonable`, which has `seen` some dataclasses, by their identity: all steps of an operator share a kernel."""
    kind: Any = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, (tuple, list)):
        return [v if type(v) in PLAIN else _jsonable(v, seen) for v in value]
    if isinstance(value, dict):
        return {k: v if type(v) in PLAIN else _jsonable(v, seen) for k, v in value.items()}
    names = _names(kind)
    if names is not None:
        if id(value) not in seen:
            optional = _optional(kind)
            given = {n: getattr(value, n) for n in names}
            fields = {n: _jsonable(v, seen) for n, v in given.items() if n not in optional or v != optional[n]}
            seen[id(value)] = {"_": kind.__name__} | fields
        return seen[id(value)]
    if isinstance(value, bytes):
        return {"_": "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"_": "float", "text": str(value)}
    if isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{kind.__name__} has no JSON form")


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for another type."""
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@cache
def _optional(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass that are left out where they have their defaults, and these."""
    return {f.name: f.default for f in dataclasses.fields(kind) if f.metadata.get(IF_ANY)}


def from_jsonable(expected: Any, value: Any) -> Any:
    """Rebuild a value of the annotated type `expected`; TypeError, KeyError or ValueError where it does not fit."""
    origin, args = get_origin(expected), get_args(expected)
    if expected is Any:
        return value
    if origin in (Union, types.UnionType):
        return _from_union(args, value)
    if origin is tuple:
        return _from_list(args, value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"expected a table, found {_shown(value)}")
        return {k: from_jsonable(args[1], v) for k, v in value.items()}
    if origin is typing.Literal:
        if not isinstance(value, str) or value not in args:
            raise ValueError(f"{_shown(value)} is none of {args}")
        return value
    if expected is bytes:
        _tagged(value, "bytes", "base64")
        return base64.b64decode(str(value["base64"]), validate=True)
    if dataclasses.is_dataclass(expected):
        return _from_fields(typing.cast(type, expected), value)
    return _from_scalar(expected, value)


def _shown(value: Any) -> str:
    """The value as text for a message, at most 60 characters and an ellipsis."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _tagged(value: Any, name: str, key: str) -> None:
    """TypeError unless the value is the table of that kind with that key alone."""
    if not isinstance(value, dict) or set(value) != {"_", key} or value["_"] != name:
        raise TypeError(f"expected {name}, found {_shown(value)}")


def _from_list(args: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {_shown(value)}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(from_jsonable(args[0], v) for v in value)
    if len(args) != len(value):
        raise ValueError(f"expected {len(args)} items, found {len(value)}")
    return tuple(from_jsonable(a, v) for a, v in zip(args, value, strict=True))


def _from_scalar(expected: type, value: Any) -> Any:
    if expected is float and isinstance(value, dict):
        _tagged(value, "float", "text")
        if value["text"] not in INFINITIES:
            raise ValueError(f"{_shown(value['text'])} is none of {tuple(INFINITIES)}")
        return INFINITIES[value["text"]]
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"expected {expected.__name__}, found {_shown(value)}")
    if isinstance(value, str):
        value.encode()
    return value


def _from_union(options: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in options:
        return None
    if isinstance(value, dict) and "_" in value:
        for option in options:
            if getattr(option, "__name__", "") == value["_"]:
                return from_jsonable(option, value)
        raise ValueError(f"{_shown(value['_'])} is none of {[getattr(o, '__name__', str(o)) for o in options]}")
    for option in options:
        if option is type(None) or dataclasses.is_dataclass(option):
            continue
        try:
            return from_jsonable(option, value)
        except (TypeError, ValueError, KeyError):
            continue
    raise TypeError(f"{_shown(value)} is none of {options}")


def _from_fields(cls: type, value: Any) -> Any:
    hints = _hints(cls)
    if not isinstance(value, dict) or value.get("_") != cls.__name__:
        raise TypeError(f"expected a {cls.__name__}, found {_shown(value)}")
    unknown = sorted(set(value) - {"_"} - set(hints))
    if unknown:
        raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}")
    given = {name: hint for name, hint in hints.items() if name in value or name not in _optional(cls)}
    return cls(**{name: from_jsonable(hint, value[name]) for name, hint in given.items()})


@cache
def _hints(cls: type) -> dict[str, Any]:
    """The type of each field, in their order."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def dumps(artefact: Any) -> str:
    """The artefact's file text: sorted by construction, one trailing newline."""
    body = to_jsonable(artefact)
    envelope = {"kind": type(artefact).__name__, "version": VERSION, "digest": _hashed(body), "body": body}
    return folded_json(envelope)


def seal(artefact: Any) -> str:
    """SHA-256 over the canonical JSON of the artefact, 16 hexadecimal digits."""
    return _hashed(to_jsonable(artefact))


def digest(artefact: Any) -> str:
    """The same hash as `seal` without the fields marked OUTSIDE_DIGEST: equal decisions have equal digests."""
    body = to_jsonable(artefact)
    for field in dataclasses.fields(artefact) if dataclasses.is_dataclass(artefact) else ():
        if field.metadata.get(OUTSIDE_DIGEST):
            del body[field.name]
    return _hashed(body)


def _hashed(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kind_of(path: Path) -> str:
    """The kind an artefact file declares."""
    return str(_envelope(path)["kind"])


def load(cls: type[T], path: Path, sealed: bool = False) -> T:
    """Read an artefact file of the kind `cls`; FileProblem where it is something else.

    The digest of a `sealed` file must match its content, so that an edited file is refused.
    """
    envelope = _envelope(path)
    if envelope["kind"] != cls.__name__ or envelope["version"] != VERSION:
        raise FileProblem(
            f"{path} is a {_shown(envelope['kind'])} {_shown(envelope['version'])}, not a {cls.__name__} {VERSION}",
            hint="dump it again with this version of the deployer",
        )
    with damage(f"{path} does not hold a valid {cls.__name__}", "make it again with this version of the deployer"):
        artefact = typing.cast(T, from_jsonable(cls, envelope["body"]))
    if sealed and envelope.get("digest") != seal(artefact):
        facts = [("digest", f"{_shown(envelope.get('digest'))}, of its content {seal(artefact)!r}")]
        hint = "make it again; to change a plan, edit its tiling.json and give that to `deployer compile --from`"
        raise FileProblem(f"{path} was edited or damaged after it was written", facts, hint)
    return artefact


def _envelope(path: Path) -> dict[str, Any]:
    envelope = read_json(path, "not a JSON artefact", "give a plan.json or a tiling.json")
    if not isinstance(envelope, dict) or not {"kind", "version", "body"} <= set(envelope):
        raise FileProblem(f"{path} is JSON, but no artefact of the deployer", hint="give a plan.json or a tiling.json")
    return envelope
