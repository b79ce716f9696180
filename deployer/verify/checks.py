"""Verdict on a run pass by pass: each checked pass from its own state, and errors that flipped decisions explain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from deployer.core.ir import Program
from deployer.frontend.dataset import Dataset
from deployer.verify import verdict
from deployer.verify.flips import Budget, Flip, at_pass, explanation, flipping, near_units, search_flips
from deployer.verify.reference import Memory, initial_memory, run_pass
from deployer.verify.rounding import PROBES, disturbed_passes, held_pass, with_rounding
from deployer.verify.same_state import OnePass, misfit
from deployer.verify.systematic import LOSS, Directions, Found, Key, Systematic
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected

MOST_TRAJECTORY_PASSES = 16
"""Recorded expected values are searched for flipped decisions in runs of at most so many passes."""
OWN = "this run"
WELL_WITHIN = 0.5
"""A pass beyond this share of its bounds is looked at for what rounding does to it."""
MOST_SHOWN = 3
"""So many failing passes are described, the others counted."""


@dataclass(frozen=True)
class PassCheck:
    """A pass from the program's own state: the loss's difference, and the worst error as a share of its bound.

    In one that `magnifies` rounding the bound has what probes say that rounding does to that pass. `gradient_norm` is
    that of all gradients behind the pass together, by the reference; None where the program keeps none.
    """

    index: int
    loss_difference: float
    worst: str
    severity: float
    explained: bool
    magnifies: bool = False
    gradient_norm: float | None = None


@dataclass(frozen=True)
class Explained:
    """Flipped decision, and the run that has it: the program's, or the expected one.

    `computed` is what the program had there, in the tensor `shown`, where its simulator tells.
    """

    whose: str
    flip: Flip
    shown: str = ""
    computed: float | None = None

    @property
    def own(self) -> bool:
        """Whether it flipped in the program."""
        return self.whose == OWN

    def __str__(self) -> str:
        ours = "" if self.computed is None else f"; {self.shown} is {self.computed:.3e} in this run"
        return f"pass {self.flip.index}, in {self.whose}: {self.flip}{ours}"


@dataclass(frozen=True)
class Checks:
    """Checked passes of `passes`, their faults, and the errors that flipped decisions explain."""

    passes: int = 0
    rows: tuple[PassCheck, ...] = ()
    faults: tuple[str, ...] = ()
    explained: tuple[Explained, ...] = ()
    trajectory_explained: bool = False
    failed: int | None = None
    """The first pass with a fault."""

    @property
    def worst(self) -> PassCheck:
        """The pass with the largest error."""
        return max(self.rows, key=lambda row: row.severity)


@dataclass
class Judge:
    """Checks the recorded passes of a run; `budget` limits its search."""

    program: Program
    dataset: Dataset
    tolerance: float
    passes: Sequence[OnePass]
    budget: Budget = field(default_factory=Budget)
    sums: Systematic = field(default_factory=Systematic)

    @cached_property
    def first(self) -> OnePass | None:
        """The reference of the run's first pass; None where that is not checked."""
        return self.passes[0].reference() if self.passes and self.passes[0].index == 0 else None

    @property
    def begun(self) -> Memory | None:
        """Memory of the float64 run after its first pass, which starts as the program's does."""
        return self.first.end if self.first is not None else None

    def checks(self) -> Checks:
        """Compare every recorded pass; where one fails, look for decisions that account for it."""
        rows, faults, explained, failed = [], list[str](), list[Explained](), list[int]()
        for one in self.passes:
            reference = self.first if one is self.passes[0] and self.first is not None else one.reference()
            result = misfit(one, reference, self.tolerance)
            plain = result
            if magnifies := bool(result.severity > WELL_WITHIN and not faults):
                one = with_rounding(one, reference)
                result = misfit(one, reference, self.tolerance)
            flips = explanation(one, result, self.tolerance, self.budget) if result.faults and not faults else ()
            said = f"{result.faults} beyond their bounds, worst {result.said}" if result.faults and not flips else ""
            found = Found()
            # Where rounding accounts for most of an error it hides what is small and systematic.
            sharp = plain.worst == LOSS or result.severity > plain.severity / 2
            if sharp and not result.faults:
                found, flips = self._systematic(one, reference, not faults)
                said = f"{found.name}: {found.said}" if found.severity > 1 else ""
            explained += [Explained(OWN, flip) for flip in flips]
            if said:
                failed.append(one.index)
                faults.append(f"pass {one.index} from its own state: {said}")
            right = magnifies and not said
            worst, severity = max([(result.worst, result.severity), (found.name, found.severity)], key=lambda w: w[1])
            checked = (one.index, result.loss_difference, worst, severity, bool(flips), right)
            rows.append(PassCheck(*checked, reference.gradient_norm))
        if len(faults) > MOST_SHOWN:
            faults[MOST_SHOWN:] = [f"{len(faults) - MOST_SHOWN} more of the checked passes are beyond their bounds"]
        first = failed[0] if failed else None
        return Checks(self.dataset.n_batches, tuple(rows), tuple(faults), tuple(explained), failed=first)

    def _systematic(self, one: OnePass, reference: OnePass, seeks: bool) -> tuple[Found, tuple[Flip, ...]]:
        """The worst systematic error up to this pass, and flipped decisions that account for it where it `seeks` them.

        A pass beyond the bounds is repeated with disturbed results, and what those are off by is allowed besides: once
        with decisions held, and where that is not enough four times.
        """
        directions = Directions(reference, self.tolerance)
        rows = list(directions.rows(one))
        after = sums = self.sums.after(rows)
        found, allowed = sums.found(rows), dict[Key, float]()
        if found.severity > WELL_WITHIN and seeks:
            held = list(directions.rows(held_pass(one, reference)))
            sums, allowed = after.allowing(rows, [held])
            found = sums.found(rows, allowed)
            if found.severity > WELL_WITHIN:
                probes = [list(directions.rows(probe)) for probe in disturbed_passes(one)]
                sums, allowed = after.allowing(rows, probes)
                found = sums.found(rows, allowed)
            if found.severity > 1 and self.budget.take(PROBES + 1):
                flips = search_flips(near_units(one), partial(self._left, one, allowed), self.budget)
                if flips:
                    return Found(), flips
        self.sums = sums
        return found, ()

    def _left(self, one: OnePass, allowed: Mapping[Key, float], flips: Sequence[Flip]) -> float:
        """The worst systematic error with decisions flipped."""
        rows = list(Directions(one.reference(flipping(flips)), self.tolerance).rows(one))
        return self.sums.after(rows).found(rows, allowed).severity

    def explain_trajectory(
        self, checks: Checks, expected: Expected, losses: Sequence[float], arrays: verdict.Arrays
    ) -> Checks:
        """Return the checks of a run that differs from the case's own expected values by more than the tolerance.

        The difference is explained if the float64 run agrees with this run after flipping the decisions that flipped
        in this run, and with the expected values after flipping theirs; at least one must have flipped.
        """
        if (
            checks.faults
            or len(checks.rows) < self.dataset.n_batches
            or self.dataset.n_batches > MOST_TRAJECTORY_PASSES
        ):
            return checks
        flips = {flip.flip for flip in checks.explained}
        explained = {flip.index for flip in flips}
        for one in self.passes:
            result = misfit(one, one.reference(), self.tolerance)
            if one.index not in explained and result.distance > TOLERANCES.odd:
                flips |= set(explanation(one, result, self.tolerance, self.budget))
        ours = tuple(sorted(flips, key=lambda flip: (flip.index, flip.node, flip.element)))
        run = replace(expected, losses=tuple(losses), arrays={n: np.asarray(arrays[n]) for n in expected.arrays})
        if self._distance(run, ours) > 1:
            return checks
        theirs = self._flips_of_expected(expected, ours)
        if theirs is None or not (ours or theirs):
            return checks
        rows = [Explained(OWN, t) for t in ours] + [Explained(expected.reference, t) for t in theirs]
        return replace(checks, explained=tuple(rows), trajectory_explained=True)

    def _flips_of_expected(self, expected: Expected, ours: tuple[Flip, ...]) -> tuple[Flip, ...] | None:
        """Return the decisions that flipped in the expected values; None if flips do not explain them."""
        for flips in ((), ours):
            if self._distance(expected, flips) <= 1:
                return flips
        units = [unit for one in self._trajectory() for unit in near_units(one)]
        units.sort(key=lambda unit: (unit.nearness, unit.index, unit.node, unit.element))
        return search_flips(units, lambda flips: self._distance(expected, flips), Budget()) or None

    def _trajectory(self) -> list[OnePass]:
        """The passes of the float64 run of the case."""
        memory, rows = initial_memory(self.program, self.dataset), []
        names = tuple(self.passes[0].after)
        for index in range(self.dataset.n_batches):
            before = {name: memory[name].copy() for name in names}
            loss = run_pass(self.program, self.dataset, memory, index)
            after = {name: memory[name].copy() for name in names}
            rows.append(OnePass(self.program, self.dataset, index, before, after, loss))
        return rows

    def _distance(self, values: Expected, flips: Sequence[Flip]) -> float:
        """The largest error of these losses and weights as a share of its bound, from a float64 run with flips."""
        memory = initial_memory(self.program, self.dataset)
        losses = []
        for index in range(self.dataset.n_batches):
            hook = flipping(at_pass(flips, index))
            losses.append(run_pass(self.program, self.dataset, memory, index, before=hook))
        reached = replace(values, losses=tuple(losses), arrays={n: memory[n] for n in values.arrays})
        errors = [verdict.distances(np.array(values.losses), np.array(losses))]
        errors += [verdict.distances(values.arrays[n], reached.arrays[n]) for n in sorted(values.arrays)]
        worst = max(float(np.nan_to_num(a, nan=np.inf).max(initial=0.0)) for a in errors)
        moved = [m.severity for m in verdict.movements(values.arrays, reached)]
        return max([verdict.share(worst, self.tolerance), *moved])
