"""The register of kinds of input."""

from collections.abc import Callable

from .trial import Kind

_KINDS: dict[str, tuple[int, Kind]] = {}


def kind(weight: int) -> Callable[[Kind], Kind]:
    """Decorator: a kind that is drawn `weight` times where all kinds together are drawn as often as their sum."""

    def add(function: Kind) -> Kind:
        _KINDS[function.__name__] = (weight, function)
        return function

    return add


def kinds() -> dict[str, tuple[int, Kind]]:
    """Weight and function of each kind, by name."""
    from . import kind_artefact, kind_command, kind_data, kind_graph, kind_name, kind_target, kind_training

    assert all((kind_artefact, kind_command, kind_data, kind_graph, kind_name, kind_target, kind_training))
    return dict(sorted(_KINDS.items()))
