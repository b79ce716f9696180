"""Operators with graphs inside, which have no form of their own: what is known of their inputs says what is done."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from deployer.core.errors import InternalError
from deployer.core.ir import Node, TensorType
from deployer.core.operator import unsupported
from deployer.core.packages import walk

MOST_TURNS = 1024
"""How often a node may compute a graph of its own: all turns are written out, as many as a plan takes in minutes."""


@dataclass(frozen=True)
class Inner:
    """A graph inside of a node, by the name of its attribute, to be computed once with these values as its inputs."""

    graph: str
    inputs: tuple[str, ...] = ()


class Known(Protocol):
    """Types of all values so far, and values of those that no input of the model changes."""

    @property
    def types(self) -> Mapping[str, TensorType]:
        """By the values' names."""

    @property
    def constants(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """By the values' names."""

    def fresh(self, base: str) -> str:
        """A name of a value that no other has."""


Parts = Generator[Inner | Node, tuple[str, ...], str]
"""What stands for a node, one after the other. It is told the names of a graph's results, and ends with a note for who
reads the report; `Known` has grown by each part.
"""


class Control(ABC):
    """An operator of ONNX with graphs inside. Its class says the name, versions, and inputs that have to be known."""

    name: ClassVar[str]
    versions: ClassVar[tuple[int, ...]]
    static_inputs: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """How many values each graph takes, and how many it gives at least, by its attribute."""

    @abstractmethod
    def parts(self, node: Node, counts: Mapping[str, int], known: Known) -> Parts:
        """The parts that stand for the node; `counts` has the number of results of each graph by its attribute.

        UnsupportedOperator where what has to be known is computed at run time.
        """


_CONTROLS: dict[str, Control] = {}
C = TypeVar("C", bound=type[Control])


def control(cls: C) -> C:
    """Register an operator with graphs inside; its name may not be in use."""
    if cls.name in _CONTROLS:
        raise InternalError(f"operator {cls.name} with graphs inside is registered twice")
    _CONTROLS[cls.name] = cls()
    return cls


@cache
def controls() -> Mapping[str, Control]:
    """All of them by name."""
    walk(importlib.import_module("deployer.operators"))
    return dict(sorted(_CONTROLS.items()))


def known_value(node: Node, position: int, what: str, known: Known) -> int:
    """An input of one integer or truth that is known; UnsupportedOperator where it is not. `what` names it."""
    name = node.inputs[position]
    array = known.constants.get(name)
    if array is None:
        why = f"input {position} ({name!r}), {what}, is computed at run time"
        raise unsupported(node, why, "a constant, or what follows from shapes and constants")
    if array.size != 1:
        raise unsupported(node, f"input {position} ({name!r}), {what}, has {array.size} elements", "one element")
    return int(array.reshape(-1)[0])


def check_turns(node: Node, count: int) -> None:
    """UnsupportedOperator for more turns than are written out; `count` are those that it takes at least."""
    if count > MOST_TURNS:
        raise unsupported(node, f"it takes {count} turns or more, which are written out", f"at most {MOST_TURNS} turns")
