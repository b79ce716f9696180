"""Operators with graphs inside: If, Loop and Scan, resolved where their inputs are known."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
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
    """Subgraph of a node, by the name of its attribute, to be computed once with these values as its inputs."""

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


Expansion = Generator[Inner | Node, tuple[str, ...], str]
"""What stands for a node, one after the other. It is told the names of a graph's results, and ends with a note for who
reads the report; `Known` has grown by each part.
"""


class Control(ABC):
    """ONNX operator with subgraphs; a subclass declares its name, versions, and inputs that must be known."""

    name: ClassVar[str]
    versions: ClassVar[tuple[int, ...]]
    static_inputs: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """Number of inputs and least number of outputs of each graph, by its attribute."""

    @abstractmethod
    def expand(self, node: Node, counts: Mapping[str, int], known: Known) -> Expansion:
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


def check_iterations(node: Node, count: int) -> None:
    """UnsupportedOperator for more turns than are written out; `count` are those that it takes at least."""
    if count > MOST_TURNS:
        raise unsupported(node, f"it takes {count} turns or more, which are written out", f"at most {MOST_TURNS} turns")


# Nodes around the iterations of a loop.


def bound(node: Node, values: Sequence[str]) -> Iterator[Node]:
    """The node's first outputs as these values, those that have a name."""
    for position, value in enumerate(values):
        name = node.outputs[position] if position < len(node.outputs) else ""
        if name:
            yield Node(f"{node.name}/result{position}", "Identity", (value,), (name,))


def stacked(node: Node, position: int, iterations: Sequence[str], known: Known, axis: int = 0) -> Iterator[Node]:
    """The node's output of that position as the values of all turns along a new axis."""
    name = node.outputs[position] if position < len(node.outputs) else ""
    if not name:
        return
    if not iterations:
        raise unsupported(node, f"it takes no turn, so its output {position} has no elements", "one turn or more")
    layers = [known.fresh(f"{name}/{iteration}") for iteration in range(len(iterations))]
    for layer, value in zip(layers, iterations, strict=True):
        yield Node(f"{node.name}/layer", "Unsqueeze", (value,), (layer,), {"axes": (axis,)})
    yield Node(f"{node.name}/stack{position}", "Concat", tuple(layers), (name,), {"axis": axis})


@control
class If(Control):
    """One of two graphs, where the condition is known.

    The graph that the condition chooses takes the node's place.
    """

    name = "If"
    versions = (1, 11, 13, 16, 19, 21, 23, 24, 25)
    static_inputs = (0,)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A branch reads the values around it, and gives what the other does."""
        return {"then_branch": (0, 0), "else_branch": (0, 0)}

    def expand(self, node: Node, counts: Mapping[str, int], known: Known) -> Expansion:
        """The graph's results under the names of the node's."""
        if len(set(counts.values())) > 1:
            given = " and ".join(str(count) for count in counts.values())
            raise unsupported(node, f"its graphs give {given} values", "graphs that give as many")
        chosen = "then_branch" if known_value(node, 0, "its condition", known) else "else_branch"
        results = yield Inner(chosen)
        yield from bound(node, results)
        return f"{chosen} alone is computed: no input changes the condition"


COUNT, CONDITION, STATES = 0, 1, 2
"""Positions of inputs; of the states that is the first."""


@control
class Loop(Control):
    """A graph computed turn by turn, where the number of turns is known.

    All turns are written out: each reads the states of the one before, and what each gives besides is stacked.
    """

    name = "Loop"
    versions = (1, 11, 13, 16, 19, 21, 23, 24, 25)
    static_inputs = (COUNT, CONDITION)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A turn takes its number, the condition and the states, and gives a condition and the states."""
        states = max(len(node.inputs) - STATES, 0)
        return {"body": (STATES + states, 1 + states)}

    def expand(self, node: Node, counts: Mapping[str, int], known: Known) -> Expansion:
        """The turns until the count is reached or a condition that a turn gives is false."""
        inputs = (*node.inputs, *[""] * (STATES - len(node.inputs)))
        limit = known_value(node, COUNT, "the number of its turns", known) if inputs[COUNT] else None
        goes_on = not inputs[CONDITION] or bool(known_value(node, CONDITION, "its condition", known))
        states, layers = inputs[STATES:], list[tuple[str, ...]]()
        while goes_on and (limit is None or len(layers) < limit):
            check_iterations(node, len(layers) + 1)
            names = [known.fresh(f"{node.name}/{label}{len(layers)}") for label in ("number", "condition")]
            for name, value in zip(names, (len(layers), 1), strict=True):
                yield Node(name, "Constant", (), (name,), {"value_int": value})
            condition, *results = yield Inner("body", (*names, *states))
            states, of_iteration = tuple(results[: len(states)]), tuple(results[len(states) :])
            layers.append(of_iteration)
            if condition not in known.constants:
                why = f"whether it goes on after turn {len(layers)} is computed at run time"
                raise unsupported(node, why, "a condition that follows from shapes and constants")
            goes_on = bool(known.constants[condition].all())
        yield from bound(node, states)
        for position in range(len(states), counts["body"] - 1):
            yield from stacked(node, position, [of_iteration[position - len(states)] for of_iteration in layers], known)
        return f"its {len(layers)} turns are written out: no input changes their number"


@control
class Scan(Control):
    """A graph computed for each slice of its inputs.

    All turns are written out: each takes a slice of each sequence and the states of the turn before.
    """

    name = "Scan"
    versions = (9, 11, 16, 19, 21, 23, 24, 25)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A turn takes the states and a slice of each sequence, and gives the states."""
        scanned = node.attr_int("num_scan_inputs", 1)
        if not 1 <= scanned <= len(node.inputs):
            raise unsupported(node, f"num_scan_inputs is {scanned}", f"1 to {len(node.inputs)}")
        return {"body": (len(node.inputs), len(node.inputs) - scanned)}

    def expand(self, node: Node, counts: Mapping[str, int], known: Known) -> Expansion:
        """Slices, turns, and what they give stacked along the axes that the node says, forward or backward."""
        scanned = node.attr_int("num_scan_inputs", 1)
        first = len(node.inputs) - scanned
        states, sequences = node.inputs[:first], node.inputs[first:]
        scans = _scans(node, "input", scanned)
        lengths = {known.types[name].shape[axis] for name, (axis, _) in zip(sequences, scans, strict=True)}
        if len(lengths) != 1:
            raise unsupported(node, f"its sequences have {sorted(lengths)} slices", "sequences of one length")
        [iterations] = lengths
        check_iterations(node, iterations)
        layers = list[tuple[str, ...]]()
        for iteration in range(iterations):
            slices = []
            for name, (axis, backward) in zip(sequences, scans, strict=True):
                at = iterations - 1 - iteration if backward else iteration
                kept, sliced = (known.fresh(f"{node.name}/{label}{iteration}") for label in ("kept", "slice"))
                bounds = {"starts": (at,), "ends": (at + 1,), "axes": (axis,), "steps": (1,)}
                yield Node(f"{node.name}/slice", "Slice", (name,), (kept,), {**bounds})
                yield Node(f"{node.name}/squeeze", "Squeeze", (kept,), (sliced,), {"axes": (axis,)})
                slices.append(sliced)
            results = yield Inner("body", (*states, *slices))
            states, of_iteration = tuple(results[:first]), tuple(results[first:])
            layers.append(of_iteration)
        yield from bound(node, states)
        for number, (axis, backward) in enumerate(_scans(node, "output", max(counts["body"] - first, 0))):
            of_all = [of_iteration[number] for of_iteration in layers]
            yield from stacked(node, first + number, of_all[::-1] if backward else of_all, known, axis)
        return f"its {iterations} turns are written out"


def _scans(node: Node, end: str, count: int) -> list[tuple[int, int]]:
    """The axis of each sequence at that end, `input` or `output`, and whether its slices are those from the last on."""
    axes, directions = (node.attr_ints(f"scan_{end}_{name}", (0,) * count) for name in ("axes", "directions"))
    if not len(axes) == len(directions) == count:
        why = f"it has {count} sequences as {end}, {len(axes)} axes and {len(directions)} directions of them"
        raise unsupported(node, why, "one of each for each sequence")
    if not {0, 1}.issuperset(directions):
        raise unsupported(node, f"scan_{end}_directions is {directions}", "0 for forward, 1 for backward")
    return list(zip(axes, directions, strict=True))
