"""The comparison of single passes: the float64 reference starts each from the state that the program itself had."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from deployer.core.ir import Node, Program
from deployer.core.operator import Array, numerics_of, operator_of
from deployer.core.traits.numerics import NO_NUMERICS
from deployer.core.traits.training import Optimizer
from deployer.frontend.dataset import Dataset
from deployer.verify import verdict
from deployer.verify.checked import checked_passes
from deployer.verify.mean_rounding import MeanRounding
from deployer.verify.reference import Hook, Memory, initial_memory, run_graph, run_pass
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import norm, root_mean_square

Arrays = Mapping[str, Array]
SCALED = 2.0**-6
"""Relative change of gradients by which it is seen what they change."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Dump of a program: its state before some passes and after the last one, and the losses of all."""

    states: Mapping[int, Arrays]
    final: Arrays
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Rounding:
    """Rounding error bound of a tensor: of its largest element, and of all of them as a 2-norm."""

    largest: float = 0.0
    norm: float = 0.0

    def or_more(self, error: Array) -> "Rounding":
        """With an error that was seen; one that is no number says nothing."""
        size = np.abs(np.nan_to_num(error, nan=0.0, posinf=0.0, neginf=0.0))
        return Rounding(max(self.largest, float(size.max(initial=0.0))), max(self.norm, norm(size)))

    def times(self, factor: float) -> "Rounding":
        """So many times that."""
        return Rounding(factor * self.largest, factor * self.norm)


@dataclass(frozen=True, eq=False)
class Change:
    """Change of a tensor, flat, from and to which values, and what sums behind it round, if that is known."""

    by: Array
    before: Array
    after: Array
    summed: Array | None

    @cached_property
    def unit(self) -> Array:
        """The unit in the last place of each element, and what sums round."""
        unit = verdict.roundings(self.before, self.after, 1) / TOLERANCES.roundings
        return unit if self.summed is None else unit + self.summed

    @cached_property
    def finite(self) -> Array:
        """The finite elements."""
        return verdict.finite(self.by)

    @cached_property
    def squares(self) -> tuple[float, int]:
        """The sum of squares of the finite elements, and how many these are."""
        return float(np.square(self.finite).sum()), self.finite.size


def size_of(changes: Sequence[Change]) -> float:
    """The root mean square of the finite elements of changes; 0 without any."""
    count = sum(change.squares[1] for change in changes)
    return math.sqrt(sum(change.squares[0] for change in changes) / count) if count else 0.0


@dataclass(frozen=True, eq=False)
class OnePass:
    """One pass of a program: the state before and after it, and its loss.

    In a pass of the reference that ends with an update `spread` is what rounding in gradients may do to what the
    optimizer changes, `along` what it changes by per relative change of all gradients, and `narrow` how far its own
    arithmetic in float32 is off. In a pass that magnifies rounding, `rounding` is what it may do to each tensor, and
    `loss_rounding` to the loss. `gradient_norm` is that of all gradients together, as the reference sums them up, and
    `deciding` has what nodes with decision boundaries read in it, by their names. `summed` is what the rounding of
    means does to running statistics that they are added to. `end` is the reference's memory after the first pass, and
    `begins` has the state before the pass in float64 as far as it was asked for.
    """

    program: Program
    dataset: Dataset
    index: int
    before: Arrays
    after: Arrays
    loss: float
    spread: Arrays = field(default_factory=dict)
    along: Arrays = field(default_factory=dict)
    narrow: Arrays = field(default_factory=dict)
    rounding: Mapping[str, Rounding] = field(default_factory=dict)
    loss_rounding: float = 0.0
    gradient_norm: float | None = None
    deciding: Mapping[str, list[Array | None]] = field(default_factory=dict)
    summed: Arrays = field(default_factory=dict)
    end: Memory | None = None
    begins: dict[str, Array] = field(default_factory=dict)

    @property
    def updates(self) -> int:
        """1 if an update follows the pass, else 0."""
        return int(self.dataset.updates_after(self.index))

    @cached_property
    def _changes(self) -> dict[tuple[str, bool], "Change"]:
        return {}

    def change(self, name: str, content: bool) -> "Change":
        """The change of a tensor in float64; that of an accumulator from zero where its `content` is meant.

        An accumulator starts at zero in the first pass of an update in any case.
        """
        whole = self.program.tensors[name].role == "accumulator"
        whole = whole and (content or self.index % self.dataset.n_accum == 0)
        if (name, whole) not in self._changes:
            before, after = self._begin(name), self.end_of(name)
            by = after if whole else verdict.minus(after, before)
            self._changes[name, whole] = Change(by, before, after, self.summed.get(name))
        return self._changes[name, whole]

    def _begin(self, name: str) -> Array:
        """A tensor before the pass in float64, flat; a pass has it in common with its reference."""
        if name not in self.begins:
            self.begins[name] = verdict.wide(self.before[name])
        return self.begins[name]

    @cached_property
    def _ends(self) -> dict[str, Array]:
        return {}

    def end_of(self, name: str) -> Array:
        """A tensor after the pass in float64, flat."""
        if name not in self._ends:
            self._ends[name] = verdict.wide(self.after[name])
        return self._ends[name]

    @cached_property
    def groups(self) -> list[list[str]]:
        """Tensors whose changes are of one scale."""
        return groups(self.program, tuple(self.after))

    def memory(self, dtype: type[np.floating] = np.float64) -> Memory:
        """The reference's memory with the program's state."""
        memory = initial_memory(self.program, self.dataset, dtype)
        with np.errstate(invalid="ignore"):  # a signalling NaN, such as the simulator's poison
            memory.update(self.before)
        return memory

    def reference(self, before: Hook | None = None) -> "OnePass":
        """The same pass by the float64 reference."""
        memory, optimizer = self.memory(), self.program.graphs[-1]
        trained: dict[str, Array] = {}
        deciding: dict[str, list[Array | None]] = {}
        means = MeanRounding(self.program, frozenset(self.after))

        def look(node: Node, memory: Memory) -> None:
            if not trained and node is optimizer.nodes[0]:
                trained.update(memory.arrays)
            numerics = numerics_of(node)
            if numerics is not NO_NUMERICS and numerics.decides:
                deciding[node.name] = memory.operands(node)
            if means.readers:
                means.look(node, memory)
            if before is not None:
                before(node, memory)

        loss = run_pass(self.program, self.dataset, memory, self.index, before=look)
        after = {name: _in_range(memory[name]) for name in self.after}
        norm = _gradient_norm(self.program, trained if self.updates else memory.arrays)
        done = replace(self, after=after, loss=float(_in_range(np.array(loss))), gradient_norm=norm)
        done = replace(done, deciding=deciding, summed=means.found, end=None if self.index else memory)
        return self._with_update(done, trained) if self.updates else done

    def _with_update(self, done: "OnePass", trained: Mapping[str, Array]) -> "OnePass":
        """Add the error of an update in which every gradient is off by the rounding of a sum that cancels.

        For SGD that is the rate times the rounding. An optimizer that divides by the gradient's own size makes a
        whole step of it.
        """
        gradients = [trained[self.program.storage(name)].reshape(-1) for name in self.program.accumulators]
        off = TOLERANCES.cancellation * root_mean_square(gradients)
        changed = {self.program.storage(name) for name in self.program.updated.values()} & set(done.after)
        wide = {name: verdict.wide(done.after[name]) for name in changed}
        spread = {name: np.zeros(values.size) for name, values in wide.items()}
        for sign in (-1.0, 1.0):
            memory = self._updated(trained, shift=sign * off)
            for name, values in spread.items():
                difference = np.abs(verdict.minus(verdict.wide(memory[name]), wide[name]))
                spread[name] = np.fmax(values, difference)
        declared = [operator_of(node).role(Optimizer) for node in self.program.graphs[-1].nodes]
        along, narrow = dict[str, Array](), dict[str, Array]()
        if any(each.states for each in declared if each):  # else the weights show what gradients are
            low = self._updated(trained, np.float32)
            narrow = {n: verdict.minus(verdict.wide(low[n]), wide[n]) for n in changed}
            more = self._updated(trained, factor=1 + SCALED)
            along = {n: verdict.minus(verdict.wide(more[n]), wide[n]) / SCALED for n in changed}
        return replace(done, spread=spread, along=along, narrow=narrow)

    def _updated(
        self, trained: Mapping[str, Array], dtype: type[np.floating] = np.float64, factor: float = 1.0, shift: float = 0
    ) -> Memory:
        """The memory after an update by gradients that are scaled and shifted."""
        read = {self.program.storage(name) for node in self.program.graphs[-1].nodes for name in node.inputs if name}
        memory = Memory(self.program, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for name in read & trained.keys():
                array = trained[name]
                memory.arrays[name] = array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
            memory.update({name: memory[name] * factor + shift for name in self.program.accumulators})
            run_graph(self.program.graphs[-1], memory, rates=self.dataset.rates_of(self.index))
        return memory


@dataclass(frozen=True)
class Misfit:
    """Deviation of a pass from its reference.

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


def _gradient_norm(program: Program, arrays: Mapping[str, Array]) -> float | None:
    """The Euclidean norm of all accumulators together; None of a program without any."""
    sums = [arrays[program.storage(name)].astype(np.float64).ravel() for name in program.accumulators]
    return float(np.sqrt(sum(float(values @ values) for values in sums))) if sums else None


def _in_range(values: Array) -> Array:
    """The values, with infinities where float32 has those."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    infinite = np.isinf(narrow)
    return np.where(infinite, narrow, values) if infinite.any() else values


def recorded_passes(program: Program, dataset: Dataset, recorded: Recorded, count: int) -> list[OnePass]:
    """The passes of a run that are to be checked, by the states that it dumped; a diverging run has fewer passes."""
    made = len(recorded.losses)
    initial = initial_memory(program, dataset, np.float32)
    names = tuple(recorded.final)
    rows = []
    for index in checked_passes(dataset.n_batches, count):
        if index >= made:
            break
        start = recorded.states[index] if index else {name: initial[name] for name in names}
        end = recorded.final if index + 1 == made else recorded.states[index + 1]
        rows.append(OnePass(program, dataset, index, start, end, recorded.losses[index]))
    return rows


def misfit(actual: OnePass, reference: OnePass, tolerance: float) -> Misfit:
    """Compare the loss, and the change of each tensor as a whole and element by element.

    A loss beyond 1 may differ by so many times the tolerance, as it rounds on its own scale.
    """
    error = float(verdict.distances(np.array([actual.loss]), np.array([reference.loss]))[0])
    allowed = tolerance * max(1.0, abs(reference.loss) if math.isfinite(reference.loss) else 1.0)
    allowed += actual.loss_rounding * min(1.0, tolerance / TOLERANCES.loss)  # a tighter tolerance is meant
    faults = list[tuple[str, str]]()
    if not error <= allowed:
        faults.append(("the loss", f"{actual.loss:.9g}, {reference.loss:.9g} is due"))
    shares = [("the loss", _share(error, allowed))]
    excesses = [_share(max(error - actual.loss_rounding, 0.0) if error == error else error, allowed)]
    for group in reference.groups:
        scale = size_of([reference.change(name, content=True) for name in group])
        for name in group:
            share, excess, text = _tensor(actual, reference, name, scale)
            shares.append((name, share))
            excesses.append(excess)
            faults += [(name, text)] if not share <= 1 else []
    worst, severity = max(shares, key=lambda row: row[1])
    distance = math.sqrt(sum(excess * excess for excess in excesses))
    texts = [f"{text} ({name})" for name, text in faults if name == worst]
    return Misfit(error, worst, severity, distance, len(faults), texts[0] if texts else "")


def groups(program: Program, names: tuple[str, ...]) -> list[list[str]]:
    """Tensors whose changes are of one scale: trained ones, each kind of an optimizer's states, accumulators.

    Each other tensor is a group of its own.
    """
    groups: dict[int, set[str]] = {-1: {program.storage(name) for name in program.accumulators}}
    for node in program.graphs[-1].nodes:
        declared = operator_of(node).role(Optimizer)
        for place in (declared.weight, *declared.states) if declared else ():
            groups.setdefault(place, set()).add(program.storage(node.inputs[place]))
    present = [sorted(group & set(names)) for _, group in sorted(groups.items())]
    single = sorted(set(names).difference(*present))
    return [group for group in present if group] + [[name] for name in single]


def _tensor(actual: OnePass, reference: OnePass, name: str, scale: float) -> tuple[float, float, str]:
    """The largest error of a tensor's change as a share of its bound, that beyond rounding, and what to say of it."""
    due = reference.change(name, content=True)
    moved, expected = actual.change(name, content=True).by, due.by
    error = np.abs(verdict.minus(moved, expected))
    if not error.size:
        return 0.0, 0.0, ""
    rounding = TOLERANCES.stored * TOLERANCES.roundings * (actual.updates + 1) / 2 * due.unit
    small = rounding + reference.spread.get(name, TOLERANCES.cancellation * scale)
    usable = np.abs(due.finite)
    magnified = actual.rounding.get(name, Rounding())
    allowed = TOLERANCES.element * float(usable.max(initial=0.0)) + small + magnified.largest
    size, off, rounded = math.sqrt(due.squares[0]), norm(error), norm(small) + magnified.norm
    bound = TOLERANCES.movement * size + rounded
    with np.errstate(divide="ignore", invalid="ignore"):
        each = error / allowed
    if np.isnan(each).any():
        each = np.where(np.isnan(error), math.inf, np.where(error == 0, 0.0, each))
    at = int(np.argmax(each))
    share = max(float(each[at]), _share(off, bound))
    excess = _share(max(off - rounded, 0.0) if math.isfinite(off) else math.inf, bound)
    if share <= 1:
        return share, excess, ""
    if not moved.any() and bool((np.abs(expected) > 2 * small + magnified.largest).any()):
        return share, excess, f"did not change, though its gradient is not zero: {size:.3g} is due"
    index = [int(i) for i in np.unravel_index(at, np.shape(actual.after[name]))]
    by = f"{100 * _share(off, size):.2g} % off" if usable.any() else f"{off:.3g} off"
    return share, excess, f"changed by {norm(moved):.3g} of {size:.3g}, {by}, {index} by {float(error[at]):.3e}"


def _share(amount: float, total: float) -> float:
    """The share of a bound; that of NaN is infinite."""
    return verdict.share(amount, total) if amount == amount else math.inf
