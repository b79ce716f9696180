"""The register of kinds of input."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from .trial import Kind

_KINDS: dict[str, tuple[int, Kind]] = {}


def kind(weight: int) -> Callable[[Kind], Kind]:
    """Decorator: a kind that is drawn `weight` times where all kinds together are drawn as often as their sum."""

    def add(function: Kind) -> Kind:
        _KINDS[function.__name__] = (weight, function)
        return function

    return add


@cache
def kinds() -> dict[str, tuple[int, Kind]]:
    """Weight and function of each kind, by name: those of all modules of `kinds`."""
    package = importlib.import_module(f"{__package__}.kinds")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_KINDS.items()))
