"""Seeded edits of an artefact's JSON: one value, list or table of it changed, as text that may no longer be JSON."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Path = tuple[str | int, ...]
Draw = np.random.Generator
NUMBERS = (0, 1, -1, 3, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 53, 1 << 63, 10**400)
TEXTS = ("", "x", "../../host", "*/ int x; /*", "\ud800", "\0", "L1", "L7", "double", "train", "float32")
MARK = "@raw@"
"""Stands in a document for text that no JSON value prints as."""
RAW = ("NaN", "Infinity", "1e999", "-0.0", "1.5", "[[[]]]", '{"a": 1, "a": 2}', "[" * 100_000, "9" * 5000, "nul")


def edits(document: Any, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """`count` edits: what was done and where, and the text."""
    draw = np.random.default_rng(seed)
    text, places = json.dumps(document), list(_places(document))
    for _ in range(count):
        path = places[int(draw.integers(len(places)))]
        edited = json.loads(text)
        holder = _at(edited, path[:-1])
        what, raw = _edit(holder, path[-1], draw, document, places)
        yield f"{what} at {'.'.join(map(str, path))}", json.dumps(edited).replace(json.dumps(MARK), raw)


def resealed(text: str) -> str:
    """The text with the digest of its body, where it is an artefact still."""
    try:
        envelope = json.loads(text)
        body = json.dumps(envelope["body"], sort_keys=True, allow_nan=False)
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
    envelope["digest"] = hashlib.sha256(body.encode()).hexdigest()[:16]
    return json.dumps(envelope)


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path in a document, except the empty one."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _edit(holder: Any, key: Any, draw: Draw, document: Any, places: list[Path]) -> tuple[str, str]:
    """Change what lies under a key; what was done, and the text for the mark where one was left."""
    value = holder[key]
    choices: list[Callable[[], str]] = [lambda: _set(holder, key, None), lambda: _set(holder, key, [value])]
    choices += [lambda: _moved(holder, key, draw, document, places)] * 3
    if isinstance(value, bool):
        choices += [lambda: _set(holder, key, not value)] * 3
    elif isinstance(value, int):
        choices += [lambda: _set(holder, key, value + int(draw.choice([-4, -1, 1, 4])))] * 3
        choices += [lambda: _set(holder, key, NUMBERS[int(draw.integers(len(NUMBERS)))])] * 2
    elif isinstance(value, float):
        choices += [lambda: _set(holder, key, value * 2), lambda: _set(holder, key, -value)]
    elif isinstance(value, str):
        choices += [lambda: _set(holder, key, TEXTS[int(draw.integers(len(TEXTS)))])] * 3
    elif value:
        choices += [lambda: _changed(value, draw)] * 6
    choices.append(lambda: _set(holder, key, MARK))
    what = choices[int(draw.integers(len(choices)))]()
    return what, RAW[int(draw.integers(len(RAW)))]


def _set(holder: Any, key: Any, value: Any) -> str:
    holder[key] = value
    return f"{str(value)[:40]!r}"


def _moved(holder: Any, key: Any, draw: Draw, document: Any, places: list[Path]) -> str:
    """Copy the value of another place with the same key: well formed, in the wrong place."""
    namesakes = [p for p in places if p[-1] == key]
    holder[key] = copy.deepcopy(_at(document, namesakes[int(draw.integers(len(namesakes)))]))
    return "another's"


def _changed(container: Any, draw: Draw) -> str:
    """An item of a list or table gone, twice, renamed, or in another's place."""
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    one, other = (keys[int(draw.integers(len(keys)))] for _ in range(2))
    way = int(draw.integers(4))
    if way == 0:
        del container[one]
        return f"without {one}"
    if way == 1:
        container[one], container[other] = container[other], container[one]
        return f"{one} and {other} swapped"
    if isinstance(container, dict):
        container["colour" if way == 2 else f"{one}x"] = container[one] if way == 2 else container.pop(one)
        return f"{one} renamed or added"
    container.insert(int(draw.integers(len(keys) + 1)), copy.deepcopy(container[one]))
    return f"{one} twice"
