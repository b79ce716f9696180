"""The comparison of single passes: the float64 reference starts each from the state that the program itself had."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of
from deployer.frontend.dataset import Dataset
from deployer.verify import verdict
from deployer.verify.checked import checked_passes
from deployer.verify.reference import Hook, Memory, initial_memory, run_graph, run_pass
from deployer.verify.tolerances import TOLERANCES

Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Recorded:
    """What a program dumped: its state before some passes, its state after the last one, and the losses of all."""

    states: Mapping[int, Arrays]
    final: Arrays
    losses: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class OnePass:
    """One pass of a program: the state before and after it, and its loss.

    `spread` is what rounding in gradients may do to what the optimizer changes, in a pass of the reference that ends
    with an update.
    """

    program: Program
    dataset: Dataset
    index: int
    before: Arrays
    after: Arrays
    loss: float
    spread: Arrays = field(default_factory=dict)

    @property
    def updates(self) -> int:
        """1 if an update follows the pass, else 0."""
        return int((self.index + 1) % self.dataset.n_accum == 0)

    def memory(self) -> Memory:
        """The reference's memory with the program's state."""
        memory = initial_memory(self.program, self.dataset)
        with np.errstate(invalid="ignore"):  # a signalling NaN, such as the simulator's poison
            memory.update(self.before)
        return memory

    def reference(self, before: Hook | None = None) -> "OnePass":
        """The same pass by the float64 reference."""
        memory, optimizer = self.memory(), self.program.graphs[-1]
        trained: dict[str, Array] = {}

        def look(node: Node, memory: Memory) -> None:
            if not trained and node is optimizer.nodes[0]:
                trained.update(memory.arrays)
            if before is not None:
                before(node, memory)

        loss = run_pass(self.program, self.dataset, memory, self.index, before=look)
        after = {name: _in_range(memory[name]) for name in self.after}
        spread = self._spread(trained, after) if self.updates else {}
        return replace(self, after=after, loss=float(_in_range(np.array(loss))), spread=spread)

    def _spread(self, trained: Mapping[str, Array], after: Arrays) -> Arrays:
        """How far an update goes astray where every gradient is off by the rounding of a sum that cancels.

        For SGD that is the rate times the rounding. An optimizer that divides by the gradient's own size makes a
        whole step of it.
        """
        gradients = [trained[self.program.storage(name)].reshape(-1) for name in self.program.accumulators]
        off = TOLERANCES.cancellation * _scale(gradients)
        changed = {self.program.storage(name) for name in self.program.updated.values()} & set(after)
        spread = {name: np.zeros(after[name].size) for name in changed}
        for sign in (-1.0, 1.0):
            memory = Memory(self.program, np.float64, dict(trained))
            memory.update({name: memory[name] + sign * off for name in self.program.accumulators})
            run_graph(self.program.graphs[-1], memory)
            for name, values in spread.items():
                apart = np.abs(verdict.minus(verdict.wide(memory[name]), verdict.wide(after[name])))
                spread[name] = np.fmax(values, apart)
        return spread


@dataclass(frozen=True)
class Misfit:
    """How far a pass is from its reference.

    `severity` is the largest error as a share of its bound, that of `worst`. `distance` is the root of the sum of
    squares of what the loss and each tensor as a whole are off beyond rounding, as shares of their bounds. `faults` are
    beyond them, `said` is about the worst of these.
    """

    loss_difference: float
    worst: str
    severity: float
    distance: float
    faults: int
    said: str


def _in_range(values: Array) -> Array:
    """The values, with infinities where float32 has those."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return np.where(np.isinf(narrow), narrow, values)


def recorded_passes(program: Program, dataset: Dataset, recorded: Recorded, count: int) -> list[OnePass]:
    """The passes of a run that are to be checked, by the states that it dumped."""
    initial = initial_memory(program, dataset, np.float32)
    names = tuple(recorded.final)
    rows = []
    for index in checked_passes(dataset.n_batches, count):
        start = recorded.states[index] if index else {name: initial[name] for name in names}
        end = recorded.final if index + 1 == dataset.n_batches else recorded.states[index + 1]
        rows.append(OnePass(program, dataset, index, start, end, recorded.losses[index]))
    return rows


def misfit(actual: OnePass, reference: OnePass, tolerance: float) -> Misfit:
    """Compare the loss, and the change of each tensor as a whole and element by element.

    A loss beyond 1 may differ by so many times the tolerance, as it rounds on its own scale.
    """
    apart = float(verdict.distances(np.array([actual.loss]), np.array([reference.loss]))[0])
    allowed = tolerance * max(1.0, abs(reference.loss) if math.isfinite(reference.loss) else 1.0)
    faults = list[tuple[str, str]]()
    if not apart <= allowed:
        faults.append(("the loss", f"{actual.loss:.9g}, {reference.loss:.9g} is due"))
    shares = [("the loss", _share(apart, allowed))]
    excesses = [_share(apart, allowed)]
    for group in _groups(actual.program, tuple(actual.after)):
        scale = _scale([_change(reference, name) for name in group])
        for name in group:
            share, excess, text = _tensor(actual, reference, name, scale)
            shares.append((name, share))
            excesses.append(excess)
            faults += [(name, text)] if not share <= 1 else []
    worst, severity = max(shares, key=lambda row: row[1])
    distance = math.sqrt(sum(excess * excess for excess in excesses))
    said = [f"{text} ({name})" for name, text in faults if name == worst]
    return Misfit(apart, worst, severity, distance, len(faults), said[0] if said else "")


def _groups(program: Program, names: tuple[str, ...]) -> list[list[str]]:
    """Tensors whose changes are of one scale: trained ones, each kind of an optimizer's states, accumulators.

    Each other tensor is a group of its own.
    """
    groups: dict[int, set[str]] = {-1: {program.storage(name) for name in program.accumulators}}
    for node in program.graphs[-1].nodes:
        declared = operator_of(node).optimizer
        for place in (declared.weight, *declared.states) if declared else ():
            groups.setdefault(place, set()).add(program.storage(node.inputs[place]))
    known = [sorted(group & set(names)) for _, group in sorted(groups.items())]
    single = sorted(set(names).difference(*known))
    return [group for group in known if group] + [[name] for name in single]


def _change(row: OnePass, name: str) -> Array:
    """The change of a tensor in float64; that of an accumulator is its content."""
    after = verdict.wide(row.after[name])
    if row.program.tensors[name].role == "accumulator":
        return after
    return verdict.minus(after, verdict.wide(row.before[name]))


def _scale(changes: list[Array]) -> float:
    """The root mean square of all finite elements."""
    finite = [c[np.isfinite(c)] for c in changes]
    count = sum(c.size for c in finite)
    return math.sqrt(sum(float(np.square(c).sum()) for c in finite) / count) if count else 0.0


def _tensor(actual: OnePass, reference: OnePass, name: str, scale: float) -> tuple[float, float, str]:
    """The largest error of a tensor's change as a share of its bound, that beyond rounding, and what to say of it."""
    moved, wanted = _change(actual, name), _change(reference, name)
    error = np.abs(verdict.minus(moved, wanted))
    if not error.size:
        return 0.0, 0.0, ""
    reach = np.maximum(np.abs(np.asarray(reference.before[name])), np.abs(np.asarray(reference.after[name])))
    finite = np.where(np.isfinite(reach), reach, 0).reshape(-1).astype(np.float32)
    halves = np.spacing(finite).astype(np.float64) / 2
    rounding = TOLERANCES.roundings * (actual.updates + 1) * halves
    small = rounding + reference.spread.get(name, TOLERANCES.cancellation * scale)
    usable = np.abs(wanted[np.isfinite(wanted)])
    allowed = TOLERANCES.element * float(usable.max(initial=0.0)) + small
    whole = TOLERANCES.movement * _norm(usable) + _norm(small)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(error == 0, 0.0, error / allowed)
    each = np.where(np.isnan(error), math.inf, each)
    at = int(np.argmax(each))
    total = _share(_norm(error), whole)
    beyond = max(_norm(error) - _norm(small), 0.0) if math.isfinite(_norm(error)) else math.inf
    excess = _share(beyond, whole)
    index = [int(i) for i in np.unravel_index(at, np.shape(actual.after[name]))]
    if not moved.any() and bool((np.abs(wanted) > 2 * small).any()):
        return (
            max(float(each[at]), total),
            excess,
            f"did not change, though its gradient is not zero: {_norm(usable):.3g} is due",
        )
    off = f"{100 * _share(_norm(error), _norm(usable)):.2g} % off" if usable.any() else f"{_norm(error):.3g} off"
    text = f"changed by {_norm(moved):.3g} of {_norm(usable):.3g}, {off}, {index} by {float(error[at]):.3e}"
    return max(float(each[at]), total), excess, text


def _norm(values: Array) -> float:
    return float(np.sqrt(np.square(values).sum()))


def _share(part: float, total: float) -> float:
    if part != part:
        return math.inf
    return part / total if total else math.inf if part else 0.0
