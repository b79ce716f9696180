"""Tiling problem of the middle level: storages to spill, and tiles of stages."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import replace
from threading import Lock

import numpy as np

from deployer.core.cost import rounded
from deployer.core.errors import InternalError, TilingInfeasible, one_of
from deployer.core.level import Residency
from deployer.core.plan import Buffering, Lifetimes, Stage, Step
from deployer.core.target import Target
from deployer.tilers.levels.candidates import Candidate
from deployer.tilers.levels.dma_timeline import DmaTimeline
from deployer.tilers.levels.geometry import Places, kinds, loop_key, storages
from deployer.tilers.levels.home_search import HomeSearch
from deployer.tilers.levels.inner import InnerLevel
from deployer.tilers.levels.model import HomeProblem, HomeSelection, problem_of, solve
from deployer.tilers.levels.residency import cacheable_of, residencies_of
from deployer.tilers.levels.staging import InnerCost, Spill, StageCost, StagedStep, stage_costs, stage_grid
from deployer.tilers.strategies.strategy import strategy

LEAST_SHARE = 330
"""A storage of less than one part in this many of the level is not spilled: that saves little, and its transfers
queue behind those of large tensors."""


StagedKey = tuple[int, Places, frozenset[int]]
"""A step's kind of geometry, the storages of its operands, and those that may be spilled."""
StagedSteps = dict[StagedKey, StagedStep]
Found = tuple[HomeProblem, list[Residency], HomeSelection | None]
"""A problem of the solver, the residencies that its storages may have, and a choice, if there is one."""


class MiddleLevel:
    """Middle level: storages have homes in it or are spilled, and spilled operands pass through its slots."""

    def __init__(self, lifetimes: Lifetimes, target: Target, capacity: int, staged: StagedSteps) -> None:
        """`staged` keeps what does not depend on the capacity for other instances."""
        self.lifetimes, self.target, self.capacity = lifetimes, target, capacity
        self.schedule = lifetimes.schedule
        program = self.schedule.program
        self.storage_of = {name: program.storage(name) for name in program.tensors}
        # The harness reads outputs where they are, and not every outermost level can be read.
        stay = {program.storage(name) for name in program.outputs}
        sized = [replace(x, bytes=rounded(x.bytes, target.alignment)) for x in lifetimes.storages]
        self.eligible = tuple(x for x in sized if x.storage not in stay and x.bytes * LEAST_SHARE >= self.capacity)
        self.names = frozenset(x.storage for x in self.eligible)
        self.fixed = live_bytes(lifetimes, target, self.names)
        self.kinds = kinds(self.schedule.steps)
        self._staged = staged
        self._found: dict[tuple[str, bool], Found] = {}
        self._locks: dict[tuple[str, bool], Lock] = defaultdict(Lock)

    def spill(self, name: str, inner: InnerLevel, searched: bool = False, alternatives: tuple[str, ...] = ()) -> Spill:
        """The storages that a strategy spills, and the stages of steps.

        With `searched` they are those that the clock of the level prefers, in a search that begins at the best of the
        solver's choice and what is found for the alternatives. Raises TilingInfeasible where a step, or the storages of
        a program without steps, do not fit with everything spilled.
        """
        if not self.schedule.steps and self.fixed[0] > self.capacity:
            raise self._too_full()
        problem, residencies, choice = (
            self._searched(name, inner, alternatives) if searched else self._solved(name, inner)
        )
        if choice is None:
            raise self._too_small(name)
        stages = {}
        for step, candidates, pick in zip(self.schedule.steps, problem.candidates, choice.picks, strict=True):
            c = candidates[pick]
            if c.slots:
                stages[step.index] = stage_of(c)
        spilled = frozenset(x.storage for x in self.eligible if x.storage not in choice.resident)
        chosen = sorted((v for v in residencies if v.storage in choice.cached), key=lambda v: (v.first, v.storage))
        return Spill(spilled, stages, tuple(chosen))

    def _solved(self, name: str, inner: InnerLevel) -> Found:
        """A strategy's problem and the solver's choice."""
        with self._locks[name, False]:
            if (name, False) not in self._found:
                problem, residencies = self._problem(name, inner)
                self._found[name, False] = problem, residencies, solve(problem)
            return self._found[name, False]

    def _searched(self, name: str, inner: InnerLevel, alternatives: tuple[str, ...]) -> Found:
        """Search from the solver's choice, and from those of alternatives whose candidates the strategy has."""
        problem, residencies, choice = self._solved(name, inner)
        if choice is None or len(choice.resident) == len(self.eligible):
            return problem, residencies, choice
        with self._locks[name, True]:
            if (name, True) not in self._found:
                others = [found for alternative in alternatives if (found := self._searched(alternative, inner, ())[2])]
                clock = DmaTimeline(problem, residencies, self.schedule, self.target, self._costs(name, problem, inner))
                best = HomeSearch(problem, clock.cycles, clock.keep).best(choice, others)
                self._found[name, True] = problem, residencies, best
            return self._found[name, True]

    def _costs(self, name: str, problem: HomeProblem, inner: InnerLevel) -> Callable[[int, int], StageCost]:
        """The cost of the stage of a step's candidate, by the numbers of both; steps of equal geometry share it.

        Once one is asked for, those of all candidates of the step are computed together.
        """
        known: dict[Hashable, StageCost] = {}
        fresh = self.schedule.options.updates_every_pass

        def cost(number: int, pick: int) -> StageCost:
            step, candidates = self.schedule.steps[number], problem.candidates[number]
            of = self.kinds[number], strategy(name).modes(step, self.schedule.options)
            asked = of, loop_key(stage_of(candidates[pick]))
            if asked not in known:
                stages = {(of, loop_key(stage)): stage for c in candidates if c.slots for stage in [stage_of(c)]}
                new = {key: stage for key, stage in stages.items() if key not in known}
                inside, calls = self._inside(name, step, inner), inner.calls(step)
                costs = stage_costs(step, [*new.values()], inside, calls, self.storage_of, self.target, fresh)
                known.update(zip(new, costs, strict=True))
            return known[asked]

        return cost

    def _inside(self, name: str, step: Step, inner: InnerLevel) -> InnerCost:
        """The cost of a step with nothing spilled."""
        modes = strategy(name).modes(step, self.schedule.options)
        return InnerCost(inner.fastest(step, modes), inner.kernels(step))

    def _problem(self, name: str, inner: InnerLevel) -> tuple[HomeProblem, list[Residency]]:
        """The solver's problem, and the residencies that its storages may have."""
        options = self.schedule.options
        candidates, fastest = [], []
        for step in self.schedule.steps:
            inside = self._inside(name, step, inner)
            modes = strategy(name).stage_modes(step, options)
            candidates.append(tuple(self._candidates(step, inside, self.capacity, modes)))
            fastest.append(inside.cycles)
        residencies = residencies_of(self.schedule, self.eligible, self.target, fastest)
        cacheable = cacheable_of(residencies, self.eligible, self.target)
        return problem_of(self.lifetimes, self.eligible, self.capacity, candidates, cacheable), residencies

    def _candidates(self, step: Step, inside: InnerCost, room: int, modes: tuple[Buffering, ...]) -> list[Candidate]:
        """The Pareto fronts of all residencies in `room` bytes; `inside` is the cost with nothing spilled.

        Storages that cannot be spilled need some bytes, which are part of each candidate's.
        """
        names, places = storages(step, self.storage_of)
        touched = frozenset(names.index(name) for name in self.names.intersection(names))
        key = (self.kinds[step.index], places, touched)
        if key not in self._staged:
            fresh = self.schedule.options.updates_every_pass
            self._staged[key] = StagedStep(step, places, touched, self.target, fresh)
        fixed, by_name = self.fixed[step.index], sorted(touched, key=lambda place: names[place])
        everything, access = frozenset(names[place] for place in touched), step.access
        whole = Candidate(access.sizes, tuple(access.sizes), "single", everything, {}, fixed, inside.cycles)
        fronts = [self._staged[key].fronts(inside, room - fixed, mode) for mode in modes]
        candidates = [whole]
        for mask in (m for r in range(len(by_name)) for m in itertools.combinations(by_name, r)):
            resident = frozenset(names[place] for place in mask)
            for x in (x for front in fronts for x in front[frozenset(mask)]):
                candidates.append(Candidate(x.tile, x.order, x.buffering, resident, x.slots, x.bytes + fixed, x.cycles))
        return candidates

    def _least(self, name: str) -> tuple[int, Step]:
        """The step that needs the most bytes with all its eligible operands spilled, after these bytes."""
        needs = []
        for step in self.schedule.steps:
            modes = strategy(name).stage_modes(step, self.schedule.options)
            inside = InnerCost(0, np.zeros(stage_grid(step.access).size, np.int64))
            candidates = self._candidates(step, inside, 1 << 62, modes)
            needs.append((min(c.bytes for c in candidates if not c.resident), -step.index))
        most, index = max(needs)
        return most, self.schedule.steps[-index]

    def _too_full(self) -> TilingInfeasible:
        """The error of a program without steps, whose outputs are constants."""
        level, [need] = self.target.usual, live_bytes(self.lifetimes, self.target, frozenset())
        facts = [("needed", f"{need} B"), ("free", f"{self.capacity} B of {level.budget} B")]
        cause = f"the outputs do not fit {level.name} of target {self.target.name!r}, where they are read"
        return TilingInfeasible(cause, facts, one_of(*self.target.larger(level, need), "smaller outputs"))

    def _too_small(self, name: str) -> TilingInfeasible:
        """The error of the step that needs the most bytes, with a budget that suffices.

        Which storages are eligible depends on the capacity, so a larger capacity may need still more bytes.
        """
        enough, (most, step) = self, self._least(name)
        while most > enough.capacity:
            enough = MiddleLevel(self.lifetimes, self.target, most, self._staged)
            most, step = enough._least(name)
        if enough is self:
            raise InternalError("every step fits with everything spilled, and the model found nothing")
        level = self.target.usual
        stays = f"of which {enough.fixed[step.index]} B are too small to spill"
        facts = [
            ("smallest", f"{most} B with the rest spilled, {stays}"),
            ("free", f"{self.capacity} B of {level.budget} B"),
        ]
        cause = f"node {step.name!r} ({step.node.op}) does not fit {level.name} of target {self.target.name!r}"
        hint = one_of(*self.target.larger(level, enough.capacity), "a smaller layer")
        return TilingInfeasible(cause, facts, hint)


def stage_of(candidate: Candidate) -> Stage:
    """The stage of a candidate whose operands pass through slots."""
    return Stage(candidate.tile, candidate.order, candidate.buffering, candidate.slots)


def fits(lifetimes: Lifetimes, target: Target, room: int, resident: frozenset[str]) -> bool:
    """Whether, at every step, the live storages that are not `resident` fit `room` bytes."""
    return max(live_bytes(lifetimes, target, resident)) <= room


def live_bytes(lifetimes: Lifetimes, target: Target, without: frozenset[str]) -> list[int]:
    """Bytes of all live storages at each step, except those in `without`."""
    changes = [0] * (max(len(lifetimes.schedule.steps), 1) + 1)
    for life in lifetimes.storages:
        if life.storage not in without:
            size = rounded(life.bytes, target.alignment)
            changes[life.first] += size
            changes[life.last + 1] -= size
    return list(itertools.accumulate(changes[:-1]))
