"""Matching of tensors by value, up to transposition, shape and repetition."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.errors import DeployerWarning, OptionProblem, facts_of
from deployer.core.ir import BIAS, CONSTANT, STATE, TRAINED
from deployer.core.operator import Array, operator_of
from deployer.training.tensors.decisions import OF_LAYERS, OWN_PART, Decider, Decision
from deployer.training.tensors.edits import WeightCopy
from deployer.training.tensors.origins import KEEPING, traced
from deployer.training.tensors.uses import SETTING, is_uniform

# Find tensors that repeat another one's numbers: with permuted axes, reshaped, or repeated.

MOST_AXES = 4
"""The most axes of other than one element whose orders are tried."""


def once(array: Array) -> Array:
    """The part of an array that is repeated along its axes, with as many axes."""
    for axis, length in enumerate(array.shape):
        first = array.take([0], axis)
        if length > 1 and bool((array == first).all()):
            array = first
    return array


def key(array: Array) -> tuple[int, str]:
    """The same for all arrays with the same numbers, whatever their order and however often they are repeated."""
    values = np.sort(once(array), axis=None).astype(np.float32) + np.float32(0)  # no negative zeros
    return values.size, hashlib.sha256(values.tobytes()).hexdigest()


def by_key(arrays: Mapping[str, Array]) -> dict[tuple[int, str], list[str]]:
    """The names of arrays of at least two different numbers, by their keys."""
    found: dict[tuple[int, str], list[str]] = {}
    for name, array in arrays.items():
        values = once(array)
        if values.size > 1:
            found.setdefault(key(values), []).append(name)
    return found


def copy_of(source: str, array: Array, copy: Array) -> WeightCopy | None:
    """Rewrite that makes `copy` of a source's array; None where there is none."""
    full = copy.shape
    for target in (copy, once(copy)):
        if target.size == array.size:
            for shape, order in _orders(array):
                if bool((array.reshape(shape).transpose(order).reshape(-1) == target.reshape(-1)).all()):
                    return WeightCopy(source, shape, order, target.shape, full)
    return None


def _orders(array: Array) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of an array, each with an order of axes: its own first."""
    yield array.shape, tuple(range(array.ndim))
    shape = tuple(length for length in array.shape if length != 1)
    if 1 < len(shape) <= MOST_AXES:
        yield from (
            (shape, order) for order in itertools.permutations(range(len(shape))) if order != tuple(sorted(order))
        )


# Parameters of a module, by name and numbers, and the tensors of its exported file that hold them.

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""The last parts of names of buffers that norms keep."""


@dataclass
class Matches:
    """The tensor of each parameter that has one, the parameters of each tensor, and why others have none.

    `copies` are further tensors with a parameter's numbers; of those in `repeated` a part of that shape is the
    parameter. `merged` are groups of parameters that one tensor stands for.
    """

    tensors: dict[str, list[str]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    copies: dict[str, WeightCopy] = field(default_factory=dict)
    repeated: dict[str, tuple[int, ...]] = field(default_factory=dict)
    merged: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def add(self, tensor: str, parameter: str) -> None:
        """Note that a tensor holds a parameter."""
        self.tensors.setdefault(tensor, []).append(parameter)


class Matcher:
    """Search for the tensors of parameters: by name, by numbers, and if all numbers are equal by their readers.

    OptionProblem where several tensors may be one parameter.
    """

    def __init__(self, decider: Decider, decisions: Sequence[Decision], parameters: Mapping[str, Array]) -> None:
        self.decider = decider
        self.fates = {decision.name: decision for decision in decisions}
        self.arrays = decider.arrays
        floats = {n: np.asarray(a, np.float32) for n, a in parameters.items() if a.dtype.kind == "f"}
        self.parameters = {n: a for n, a in floats.items() if n.rpartition(".")[2] not in STATISTICS and a.size}
        self.found = Matches()

    def run(self) -> Matches:
        """All matches."""
        others: dict[str, str] = {}
        for name, array in self.parameters.items():
            tensor = self._named(name)
            if tensor and copy_of(name, array, self.arrays[tensor]) is not None:
                self._take(tensor, name)
            elif tensor:
                others[name] = self._difference(array, self.arrays[tensor])
        self._by_numbers()
        self._by_gates()
        self._first_rows()
        self._uniform()
        for name in self._open():
            reason = others.get(name, "no tensor of the model has its numbers")
            zeros = is_uniform(self.parameters[name]) and name not in others
            self.found.lost[name] = f"{reason}; all {self.parameters[name].flat[0]:g}" if zeros else reason
        return self.found

    def _open(self) -> list[str]:
        taken = {name for names in self.found.tensors.values() for name in names}
        taken |= {name for _, names in self.found.merged for name in names}
        return [name for name in self.parameters if name not in taken and name not in self.found.left]

    def _named(self, name: str) -> str:
        """The tensor of a parameter's name, which may have been inside of a node."""
        if name in self.arrays:
            return name
        inside = [tensor for tensor in self.decider.model.hoisted if tensor.endswith(f"/{name}")]
        return inside[0] if len(inside) == 1 else ""

    @staticmethod
    def _difference(array: Array, tensor: Array) -> str:
        if array.size != tensor.size:
            return f"the model's has the shape {list(tensor.shape)}"
        off = float(np.abs(array.reshape(-1) - tensor.reshape(-1)).max())
        return f"the model's has other numbers, by up to {off:.3g}: probably a norm was folded into it"

    def _take(self, tensor: str, parameter: str) -> None:
        """Match a pair, unless the tensor is none that is ever trained."""
        decision = self.fates[tensor]
        if decision.fate == STATE or (decision.fate == CONSTANT and decision.why in Decider.NEVER):
            self.found.left[parameter] = f"{tensor!r} is {decision.why}"
            return
        array = self.arrays[tensor]
        if array.size > self.parameters[parameter].size:
            own = self.parameters[parameter].shape
            padded = (1,) * (array.ndim - len(own)) + own
            self.found.repeated[tensor] = padded if is_uniform(array) else once(array).shape
        self.found.add(tensor, parameter)

    def _by_numbers(self) -> None:
        """Match what has different numbers; further tensors with the numbers of a match are copies of it."""
        tensors, parameters = by_key(self.arrays), by_key(self.parameters)
        for group, names in parameters.items():
            candidates = [name for name in tensors.get(group, ()) if self.fates[name].fate != STATE]
            own = [name for name in candidates if name in self.found.tensors]
            rest = [name for name in candidates if name not in self.found.tensors]
            rest.sort(key=lambda name: self.fates[name].fate != TRAINED)
            open_names = [name for name in names if name in self._open()]
            for tensor in list(rest):
                parameter = self._by_call(tensor, open_names)
                if parameter:
                    self._take(tensor, parameter)
                    open_names.remove(parameter)
                    rest.remove(tensor)
                    own.append(tensor)
            if not own and rest and open_names:
                first = next((t for t in rest if self._fits(t, open_names[0])), None)
                if first is not None:
                    self._take(first, open_names.pop(0))
                    rest.remove(first)
                    own.append(first)
            for tensor in [t for t in rest if t in self.decider.model.parted]:
                if own and open_names and self._fits(tensor, open_names[0]):
                    self._take(tensor, open_names.pop(0))
                    rest.remove(tensor)
            sources = [name for name in own if name in self.found.tensors]
            for tensor in rest if sources else ():
                self._copy(tensor, sources)
            if open_names and sources:
                self._merge(sources[0], open_names)

    def _merge(self, tensor: str, names: Sequence[str]) -> None:
        """Note further parameters of a tensor; an exporter that says which it merged has others only where tied."""
        for name in names if self.decider.tells(tensor) else ():
            self.found.add(tensor, name)
        if not self.decider.tells(tensor):
            self.found.merged.append((tensor, tuple(names)))

    def _fits(self, tensor: str, parameter: str) -> bool:
        return copy_of(parameter, self.parameters[parameter], self.arrays[tensor]) is not None

    def _by_call(self, tensor: str, names: Sequence[str]) -> str:
        """The parameter that the traced calls of a tensor's readers name, among those."""
        read = frozenset().union(*(self.decider.origins.of(use.node).parameters for use in self.decider.uses[tensor]))
        named = [name for name in names if traced(name) in read and self._fits(tensor, name)]
        return named[0] if len(named) == 1 else ""

    def _copy(self, tensor: str, sources: Sequence[str]) -> None:
        """Make a tensor a copy of the one of these that it is; OptionProblem where it may be one of several."""
        source = sources[0]
        if len(sources) > 1:
            read = frozenset().union(*(self.decider.origins.of(u.node).parameters for u in self.decider.uses[tensor]))
            named = [name for name in sources if traced(self.found.tensors[name][0]) in read]
            if len(named) != 1:
                facts = [("may be", name) for name in sources]
                hint = "numbers that differ when the module is exported, or deployer.torch"
                raise OptionProblem(f"{tensor!r} matches the values of several parameters", facts, hint)
            source = named[0]
        array = self.arrays[source]
        copy = copy_of(source, once(array) if source in self.found.repeated else array, self.arrays[tensor])
        if copy is not None:
            self.found.copies[tensor] = copy

    def _by_gates(self) -> None:
        """Match weights of recurrent layers: exporters reorder gates, and join directions and biases."""
        open_names = self._open()
        for tensor, array in self.arrays.items():
            joined = next((u for u in self.decider.uses[tensor] if _gates(u.at) and u.position in (1, 2, 3)), None)
            if joined is None or tensor in self.found.tensors:
                continue
            gates, matched = _gates(joined.at), []
            for piece in _pieces(array, joined.position):
                fitting = [n for n in open_names if n not in matched and _same_gates(self.parameters[n], piece, gates)]
                if not fitting:
                    break
                matched.append(fitting[0])
            else:
                for name in matched:
                    self.found.add(tensor, name)
                    open_names.remove(name)

    def _first_rows(self) -> None:
        """Match tables of which the model has the first rows alone, as of places that no input is long enough for."""
        for name in self._open():
            array = self.parameters[name]
            for tensor, stored in self.arrays.items():
                rows, rest = divmod(stored.size, max(array[0].size, 1)) if array.ndim > 1 else (0, 1)
                if rest or not 0 < rows < len(array) or tensor in self.found.tensors or is_uniform(stored):
                    continue
                if bool((array[:rows].reshape(-1) == stored.reshape(-1)).all()):
                    self.found.add(tensor, name)
                    break

    def _uniform(self) -> None:
        """Match what has one number all over, by its value, its shape, and what reads it."""
        groups: dict[tuple[float, tuple[int, ...], bool], list[str]] = {}
        for name in self._open():
            array = self.parameters[name]
            if is_uniform(array):
                shape = tuple(length for length in array.shape if length != 1)
                groups.setdefault((float(array.flat[0]), shape, _is_bias(name)), []).append(name)
        for (number, shape, bias), names in groups.items():
            left = list(names)
            equal = [t for t in self.arrays if self._may_be(t, number, shape, bias)]
            for tensor in [t for t in equal if t not in self.found.tensors]:
                parameter = self._by_call(tensor, left)
                if parameter:
                    self._take(tensor, parameter)
                    left.remove(parameter)
            free = [t for t in equal if t not in self.found.tensors]
            if len(free) > len(left) > 0:
                facts = [(name, "\n".join(self._lines(free))) for name in left]
                hint = "numbers that differ when the module is exported, --trainable REGEX, or deployer.torch"
                raise OptionProblem(f"several tensors match a parameter whose values are all {number:g}", facts, hint)
            for tensor, name in zip(free, list(left), strict=False):
                self._take(tensor, name)
                left.remove(name)
            shared = next((t for t in equal if t in self.found.tensors and len(self.decider.uses[t]) > 1), None)
            if left and shared is not None:
                self._merge(shared, left)

    def _may_be(self, tensor: str, number: float, shape: tuple[int, ...], bias: bool) -> bool:
        array, decision = self.arrays[tensor], self.fates[tensor]
        if not is_uniform(array) or float(array.flat[0]) != np.float32(number):
            return False
        if decision.fate == STATE or decision.why == OWN_PART or self.decider.roles(tensor) <= {SETTING}:
            return False
        own = tuple(length for length in array.shape if length != 1)
        repeated = decision.fate != TRAINED and own[-len(shape) :] == shape and self.decider.is_anonymous(tensor)
        if own != shape and not (repeated and shape):
            return False
        roles = self.decider.roles(tensor) & {*OF_LAYERS}
        return not roles or (BIAS in roles if bias else bool(roles - {BIAS}))

    def _lines(self, tensors: Sequence[str]) -> Iterator[str]:
        for name in tensors:
            decision = self.fates[name]
            yield f"{name} {list(decision.shape)}, {decision.values}, read by {', '.join(decision.readers[:3])}"


def _is_bias(name: str) -> bool:
    return "bias" in name.rpartition(".")[2] or name.rpartition(".")[2] == "beta"


def _gates(node: object) -> int:
    """The gates of a recurrent layer; 0 for other operators."""
    return int(getattr(operator_of(node), "gates", 0))  # type: ignore[arg-type]


def _pieces(array: Array, position: int) -> list[Array]:
    """Parts that a module keeps apart: one of each direction, and both halves of a bias."""
    directions = [array[index] for index in range(len(array))]
    if position < 3:
        return directions
    return [half for direction in directions for half in np.split(direction, 2)]


def _same_gates(parameter: Array, piece: Array, gates: int) -> bool:
    """Whether a parameter is the piece with its gates in some order."""
    if parameter.shape != piece.shape or len(piece) % gates:
        return False
    blocks, wanted = np.split(parameter, gates), np.split(piece, gates)
    return any(
        all(bool((blocks[i] == block).all()) for i, block in zip(order, wanted, strict=True))
        for order in itertools.permutations(range(gates))
    )


def check_lost(found: Matches, parameters: Mapping[str, Array], place: str) -> None:
    """OptionProblem that names the parameters without a tensor."""
    if not found.lost:
        return
    lines = [f"{name} {list(parameters[name].shape)}: {reason}" for name, reason in found.lost.items()]
    count = f"{len(lines)} parameters of {place} have" if len(lines) > 1 else f"a parameter of {place} has"
    cause = f"{count} no tensor in the model"
    hint = f"an export that keeps them: {KEEPING}; or a file of parameters without them, which does not train them"
    if not found.tensors:
        hint = "the parameters of this very model, as they were when it was exported"
    raise OptionProblem(cause, facts_of("parameter", lines), hint)


def said(found: Matches, place: str) -> Iterator[DeployerWarning]:
    """Warnings about matches that are no errors."""
    for tensor, names in found.merged:
        facts = [("tensor", tensor), ("parameters", ", ".join((*found.tensors[tensor], *names)))]
        cause = f"parameters of {place} with equal numbers are one tensor of the model, and are trained as one"
        yield DeployerWarning(cause, facts, f"correct if they are tied in the module; if not: {KEEPING}")
    if found.left:
        facts = facts_of("parameter", [f"{name}: {why}" for name, why in found.left.items()])
        hint = "--param-group 'REGEX:trained' trains one all the same"
        yield DeployerWarning(f"tensors of {place} are not trained, as they are not parameters", facts, hint)
