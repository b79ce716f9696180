"""The register of edits: each makes a small random change to one kind of input."""

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Callable[..., object])
_EDITS: dict[str, list[Callable[..., object]]] = {}


def edits_of(kind: str) -> Callable[[E], E]:
    """Decorator: an edit of things of that kind."""

    def add(edit: E) -> E:
        _EDITS.setdefault(kind, []).append(edit)
        return edit

    return add


def edits(kind: str) -> list[Callable[..., object]]:
    """All edits of a kind, by name."""
    return sorted(_EDITS[kind], key=lambda e: e.__name__)
