"""Strategies: the bufferings that a step may have. Each is a file of this package, which a scan registers."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import ClassVar, TypeVar

from deployer.core.errors import InternalError, OptionProblem
from deployer.core.packages import walk
from deployer.core.plan import Buffering, Options, Step


class Strategy(ABC):
    """A buffering policy. `alternatives` are strategies whose solutions the result must not be worse than."""

    name: ClassVar[str]
    alternatives: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Bufferings the step may have; under `double` a step of one tile still takes one slot."""

    def stage_modes(self, step: Step, options: Options) -> tuple[Buffering, ...]:
        """Bufferings of what passes through the middle level; by default those of the step."""
        return self.modes(step, options)


_REGISTRY: dict[str, Strategy] = {}
C = TypeVar("C", bound=type[Strategy])


def register(cls: C) -> C:
    """Add a strategy; InternalError where its name is in use."""
    if cls.name in _REGISTRY:
        raise InternalError(f"strategy {cls.name} is registered twice")
    _REGISTRY[cls.name] = cls()
    return cls


@cache
def registry() -> Mapping[str, Strategy]:
    """All strategies by name."""
    walk(importlib.import_module("deployer.tilers.strategies"))
    return dict(sorted(_REGISTRY.items()))


def strategy(name: str) -> Strategy:
    """The strategy of that name; OptionProblem where there is none."""
    if name not in registry():
        raise OptionProblem(f"there is no buffering strategy {name!r}", hint=f"one of {', '.join(registry())}")
    return registry()[name]
