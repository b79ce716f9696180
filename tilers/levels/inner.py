"""The tiling problem of the innermost level: a candidate for each step, and the storages with homes there."""

from collections.abc import Hashable
from dataclasses import replace

from deployer.core.cost import rounded
from deployer.core.errors import TilingInfeasible, one_of
from deployer.core.level import L_INNER
from deployer.core.plan import Buffering, Lifetimes, Stage, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.kernel_variants.costs import CallCosts
from deployer.tilers.levels.candidates import Candidate, StepCandidates, kernel_totals, pareto, smallest
from deployer.tilers.levels.geometry import kinds, loop_key, storages
from deployer.tilers.levels.grid import Ints
from deployer.tilers.levels.model import HomeProblem, HomeSelection, objective, problem_of
from deployer.tilers.levels.staging import Spill, stage_estimate, stage_grid, staged_access
from deployer.tilers.levels.tables import ArgumentTables, resident_tables
from deployer.tilers.strategies.strategy import strategy

ELIGIBLE_LIMIT = 192
"""Most storages that may be resident: those with the most uses per step of their life."""


class Costed:
    """Cache of results that do not depend on the level's room: candidates, costs of calls and of all kernels."""

    def __init__(self) -> None:
        self.candidates: dict[Hashable, StepCandidates] = {}
        self.calls: dict[int, CallCosts] = {}
        self.kernels: dict[int, Ints] = {}


class InnerLevel:
    """The innermost level; it enumerates candidates once for all strategies and all steps with the same geometry."""

    def __init__(
        self,
        lifetimes: Lifetimes,
        target: Target,
        gap: int,
        residents: bool = True,
        tables: ArgumentTables | None = None,
        costed: Costed | None = None,
    ) -> None:
        """`costed` is shared with other instances for the same schedule."""
        self.lifetimes, self.target = lifetimes, target
        self.schedule = lifetimes.schedule
        program = self.schedule.program
        self.storage_of = {name: program.storage(name) for name in program.tensors}
        self.tables = tables or resident_tables(self.schedule.steps, target)
        self.level = target.levels[L_INNER]
        self.capacity = self.level.budget - self.tables.bytes - gap
        data = {program.storage(name) for name in program.data}
        sized = [replace(x, bytes=rounded(x.bytes, target.alignment)) for x in lifetimes.storages]
        fitting = [x for x in sized if x.storage not in data and x.bytes <= self.capacity]
        uses = {x.storage: 0 for x in fitting}
        for step in self.schedule.steps:
            for operand in step.access.operands:
                if self.storage_of[operand.tensor] in uses:
                    uses[self.storage_of[operand.tensor]] += 1
        fitting.sort(key=lambda x: (-uses[x.storage] / (x.last - x.first + 1), x.bytes, x.storage))
        self.eligible = tuple(sorted(fitting[:ELIGIBLE_LIMIT], key=lambda x: x.storage) if residents else ())
        self.kinds = kinds(self.schedule.steps)
        self._costed = costed or Costed()
        self._fronts: dict[Hashable, list[Candidate]] = {}
        self._smallest: dict[tuple[int, tuple[Buffering, ...]], Candidate] = {}

    def problem(self, name: str, spill: Spill) -> HomeProblem:
        """The solver's problem for one strategy; spilled storages are not eligible for homes in the level."""
        options = self.schedule.options
        eligible = tuple(x for x in self.eligible if x.storage not in spill.storages)
        names = frozenset(x.storage for x in eligible)
        candidates = []
        for step in self.schedule.steps:
            modes = strategy(name).modes(step, options)
            candidates.append(tuple(self.front(step, modes, names, spill.stages.get(step.index))))
        return problem_of(self.lifetimes, eligible, self.capacity, candidates)

    def tiling(
        self, problem: HomeProblem, choice: HomeSelection, spill: Spill, packing_slack: tuple[int, ...]
    ) -> Tiling:
        """The tiling of a solver's choice."""
        steps = []
        for step, candidates, pick in zip(self.schedule.steps, problem.candidates, choice.picks, strict=True):
            c = candidates[pick]
            steps.append(StepTiling(step.name, c.tile, c.order, c.buffering, c.slots, spill.stages.get(step.index)))
        resident, spilled = tuple(sorted(choice.resident)), tuple(sorted(spill.storages))
        groups = self.tables.groups
        return Tiling(
            self.lifetimes,
            resident,
            spilled,
            tuple(steps),
            self.tables.bytes,
            packing_slack,
            groups,
            residencies=spill.residencies,
        )

    def front(
        self, step: Step, modes: tuple[Buffering, ...], names: frozenset[str], stage: Stage | None = None
    ) -> list[Candidate]:
        """The step's Pareto front for these bufferings, in which storages of `names` may be resident."""
        touched, places = storages(step, self.storage_of)
        stand_ins = tuple(f"{'+' if name in names else '-'}{i}" for i, name in enumerate(touched))
        real = dict(zip(stand_ins, touched, strict=True))
        homes: dict[frozenset[str], frozenset[str]] = {}
        front = []
        for c in self._front(step, modes, tuple(stand_ins[place] for place in places), stage):
            if c.resident not in homes:
                homes[c.resident] = frozenset(real[name] for name in c.resident)
            front.append(c._replace(resident=homes[c.resident]))
        return front

    def _front(
        self, step: Step, modes: tuple[Buffering, ...], names: tuple[str, ...], stage: Stage | None = None
    ) -> list[Candidate]:
        """The front that all steps of equal geometry share.

        `names` has for each operand a name of its storage that is independent of the step; it begins with `+` if the
        storage may be resident.
        """
        kind = self.kinds[step.index]
        key = (kind, modes, names, loop_key(stage))
        if key in self._fronts:
            return self._fronts[key]
        fresh = self.schedule.options.updates_every_pass
        costed = (kind, names, stage and (*stage.tile.items(), frozenset(stage.slots)))
        known = self._costed.candidates
        if costed not in known:
            access = staged_access(step.access, stage) if stage else step.access
            of = {o.tensor: name for o, name in zip(access.operands, names, strict=True)}
            eligible = frozenset(name for name in names if name.startswith("+"))
            known[costed] = StepCandidates(
                step, access, of, eligible, self.target, fresh, self.calls(step), stage.slots if stage else ()
            )
        front = pareto(c for mode in modes for c in known[costed].fronts(mode, self.capacity))
        if stage:
            costs = stage_estimate(step, stage, self.storage_of, self.target, fresh)
            front = [c._replace(cycles=costs.around(c.cycles, stage.buffering)) for c in front]
        self._fronts[key] = front
        return front

    def _alone(self, step: Step, modes: tuple[Buffering, ...]) -> list[Candidate]:
        """The step's front with nothing resident."""
        _, places = storages(step, self.storage_of)
        return self._front(step, modes, tuple(f"-{place}" for place in places))

    def fastest(self, step: Step, modes: tuple[Buffering, ...]) -> int:
        """Cycles of the step's best candidate with nothing resident."""
        return min(c.cycles for c in self._alone(step, modes))

    def kernels(self, step: Step) -> Ints:
        """Cycles of the step's kernel calls for each combination of its stage's grid."""
        kind, known = self.kinds[step.index], self._costed.kernels
        if kind not in known:
            known[kind] = kernel_totals(stage_grid(step.access), self.target, self.calls(step))
        return known[kind]

    def calls(self, step: Step) -> CallCosts:
        """Costs of calls of the steps with this one's geometry."""
        kind, known = self.kinds[step.index], self._costed.calls
        if kind not in known:
            known[kind] = CallCosts(step, self.target)
        return known[kind]

    def unfit(self, name: str) -> list[Step]:
        """Steps that do not fit under a strategy even with nothing resident."""
        options, steps = self.schedule.options, self.schedule.steps
        return [s for s in steps if not self._alone(s, strategy(name).modes(s, options))]

    def too_small(self, name: str) -> TilingInfeasible:
        """The error of the step that needs the most bytes; the budget that it proposes suffices for all steps."""
        level, target, options = self.level, self.target, self.schedule.options
        least = [(step, self._least(step, strategy(name).modes(step, options))) for step in self.unfit(name)]
        step, candidate = max(least, key=lambda x: x[1].bytes)
        single = self._least(step, ("single",))
        lengths = " ".join(f"{k}={v}" for k, v in candidate.tile.items())
        facts = [
            ("smallest tile", f"{lengths}: {candidate.bytes} B, {candidate.buffering} buffering"),
            ("free", f"{max(self.capacity, 0)} B of {level.budget} B (argument tables {self.tables.bytes} B)"),
        ]
        needed = candidate.bytes + self.tables.bytes
        other = [f"single buffering ({single.bytes} B)"] if single.bytes < candidate.bytes else []
        return TilingInfeasible(
            f"node {step.name!r} ({step.node.op}) does not fit {level.name} of target {target.name!r}",
            facts,
            one_of(*target.larger(level, needed), *other, "a smaller layer"),
        )

    def _least(self, step: Step, modes: tuple[Buffering, ...]) -> Candidate:
        """The candidate of least bytes with nothing resident, which steps of equal geometry share."""
        key = self.kinds[step.index], modes
        if key not in self._smallest:
            candidates = (smallest(step, step.access, self.storage_of, self.target, m) for m in modes)
            self._smallest[key] = min(candidates, key=lambda c: c.bytes)
        return self._smallest[key]


def carried(problem: HomeProblem, tiling: Tiling, spill: Spill) -> HomeSelection | None:
    """Another tiling as a choice of this problem; None if it spills other storages or a candidate is missing."""
    picks = []
    resident = frozenset(tiling.resident)
    if (frozenset(tiling.spilled), tiling.residencies) != (spill.storages, spill.residencies):
        return None
    for step, (candidates, choice) in enumerate(zip(problem.candidates, tiling.steps, strict=True)):
        homes = resident & problem.touches[step]
        matches = [
            i
            for i, c in enumerate(candidates)
            if (c.tile, c.order, c.slots, c.resident) == (choice.tile, choice.order, choice.slots, homes)
        ]
        if not matches:
            return None
        picks.append(matches[0])
    return HomeSelection(tuple(picks), resident, objective(problem, picks))
