"""The tiling problem of the innermost level: a candidate for each step, and the storages with homes there."""

from dataclasses import replace

from deployer.core.access import Access
from deployer.core.artefact import digest
from deployer.core.cost import rounded
from deployer.core.errors import TilingInfeasible
from deployer.core.ir import AttrValue
from deployer.core.level import RESIDENT
from deployer.core.plan import Buffering, Lifetimes, Stage, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.tilers.levels.candidates import Candidate, enumerate_candidates, kernel_totals, pareto, smallest
from deployer.tilers.levels.grid import Ints
from deployer.tilers.levels.model import Choice, Problem, objective, problem_of
from deployer.tilers.levels.staging import Spill, stage_costs, stage_grid, staged_access
from deployer.tilers.strategies.strategy import strategy

Fronts = dict[Buffering, list[Candidate]]
Geometry = tuple[str, str, dict[str, AttrValue], Access]
ELIGIBLE_LIMIT = 192
"""Most storages that may be resident: those with the most uses per step of their life."""


class InnerLevel:
    """The innermost level; it enumerates candidates once for all strategies and all steps with the same geometry."""

    def __init__(self, lifetimes: Lifetimes, target: Target, gap: int, residents: bool = True) -> None:
        self.lifetimes, self.target = lifetimes, target
        self.schedule = lifetimes.schedule
        program = self.schedule.program
        self.storage_of = {name: program.storage(name) for name in program.tensors}
        size = target.pointer_bytes
        self.tables = sum(rounded(s.kernel.table_bytes(size), target.alignment) for s in self.schedule.steps)
        self.level = target.levels[RESIDENT]
        self.capacity = self.level.budget - self.tables - gap
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
        self._candidates: dict[str, Fronts] = {}
        self._kernels: dict[str, Ints] = {}
        self._fronts: dict[tuple[int, tuple[Buffering, ...], str], list[Candidate]] = {}

    def problem(self, name: str, spill: Spill) -> Problem:
        """The solver's problem for one strategy; spilled storages are not eligible for homes in the level."""
        options = self.schedule.options
        eligible = tuple(x for x in self.eligible if x.storage not in spill.storages)
        names = frozenset(x.storage for x in eligible)
        candidates = []
        for step in self.schedule.steps:
            modes = strategy(name).modes(step, options)
            candidates.append(tuple(self.front(step, modes, names, spill.stages.get(step.index))))
        return problem_of(self.lifetimes, eligible, self.capacity, candidates)

    def tiling(self, problem: Problem, choice: Choice, spill: Spill, gaps: tuple[int, ...]) -> Tiling:
        """The tiling of a solver's choice."""
        steps = []
        for step, candidates, pick in zip(self.schedule.steps, problem.candidates, choice.picks, strict=True):
            c = candidates[pick]
            steps.append(StepTiling(step.name, c.tile, c.order, c.buffering, c.slots, spill.stages.get(step.index)))
        resident, spilled = tuple(sorted(choice.resident)), tuple(sorted(spill.storages))
        return Tiling(self.lifetimes, resident, spilled, tuple(steps), self.tables, gaps)

    def front(
        self, step: Step, modes: tuple[Buffering, ...], names: frozenset[str], stage: Stage | None = None
    ) -> list[Candidate]:
        """The step's Pareto front for these bufferings; it is cached, and steps with equal geometry share the work."""
        eligible = frozenset(self.storage_of[o.tensor] for o in step.access.operands) & names
        key = (step.index, modes, digest((stage, tuple(sorted(eligible)))))
        if key not in self._fronts:
            self._fronts[key] = self._compute(step, modes, eligible, stage)
        return self._fronts[key]

    def _compute(
        self, step: Step, modes: tuple[Buffering, ...], names: frozenset[str], stage: Stage | None
    ) -> list[Candidate]:
        stand_in = self._stand_ins(step, names)
        access = staged_access(step.access, stage) if stage else step.access
        operands = tuple(replace(o, tensor=stand_in[self.storage_of[o.tensor]]) for o in access.operands)
        key = digest((geometry(step), Access(access.dims, operands)))
        fresh = self.schedule.options.sole_pass
        if key not in self._candidates:
            of = {o.tensor: stand_in[self.storage_of[o.tensor]] for o in step.access.operands}
            eligible = frozenset(name for name in stand_in.values() if name.startswith("+"))
            self._candidates[key] = enumerate_candidates(step, access, of, eligible, self.target, self.capacity, fresh)
        front = pareto(c for mode in modes for c in self._candidates[key][mode])
        storages = {name: storage for storage, name in stand_in.items()}
        front = [replace(c, resident=frozenset(storages[name] for name in c.resident)) for c in front]
        if stage is None:
            return front
        costs = stage_costs(step, stage, self.storage_of, self.target, fresh)
        return [replace(c, cycles=costs.around(c.cycles, stage.buffering)) for c in front]

    def _stand_ins(self, step: Step, names: frozenset[str]) -> dict[str, str]:
        """A name for each storage of the step, independent of the step; it begins with `+` if it may be resident."""
        stand_ins: dict[str, str] = {}
        for operand in step.access.operands:
            storage = self.storage_of[operand.tensor]
            stand_ins.setdefault(storage, f"{'+' if storage in names else '-'}{len(stand_ins)}")
        return stand_ins

    def fastest(self, step: Step, modes: tuple[Buffering, ...]) -> int:
        """Cycles of the step's best candidate with nothing resident."""
        return min(c.cycles for c in self.front(step, modes, frozenset()))

    def kernels(self, step: Step) -> Ints:
        """Cycles of the step's kernel calls for each combination of its stage's grid."""
        key = digest(geometry(step))
        if key not in self._kernels:
            self._kernels[key] = kernel_totals(step, stage_grid(step.access), self.target)
        return self._kernels[key]

    def unfit(self, name: str) -> list[Step]:
        """Steps that do not fit under a strategy even with nothing resident."""
        options, steps = self.schedule.options, self.schedule.steps
        return [s for s in steps if not self.front(s, strategy(name).modes(s, options), frozenset())]

    def too_small(self, name: str) -> TilingInfeasible:
        """The error of the step that needs the most bytes; the budget that it proposes suffices for all steps."""
        level, target, options = self.level, self.target, self.schedule.options
        least = [(step, self._least(step, strategy(name).modes(step, options))) for step in self.unfit(name)]
        step, candidate = max(least, key=lambda x: x[1].bytes)
        single = self._least(step, ("single",))
        lengths = " ".join(f"{k}={v}" for k, v in candidate.tile.items())
        facts = [
            ("smallest tile", f"{lengths}: {candidate.bytes} B, {candidate.buffering} buffering"),
            ("free", f"{max(self.capacity, 0)} B of {level.budget} B (argument tables {self.tables} B)"),
        ]
        other = f", single buffering ({single.bytes} B)" if single.bytes < candidate.bytes else ""
        return TilingInfeasible(
            f"node {step.name!r} ({step.node.op}) does not fit {level.name} of target {target.name!r}",
            facts,
            f"{target.budget_flag(level, candidate.bytes + self.tables)}{other}, or a smaller layer",
        )

    def _least(self, step: Step, modes: tuple[Buffering, ...]) -> Candidate:
        """The candidate of least bytes with nothing resident."""
        candidates = (smallest(step, step.access, self.storage_of, self.target, m) for m in modes)
        return min(candidates, key=lambda c: c.bytes)


def geometry(step: Step) -> Geometry:
    """All that determines the cost of a step's kernel calls: kernel, operator, attributes, access without tensors."""
    attrs: dict[str, AttrValue] = {k: v for k, v in step.node.attrs.items() if isinstance(v, (int, float, str))}
    operands = tuple(replace(o, tensor="") for o in step.access.operands)
    return step.kernel.symbol, step.node.op, attrs, Access(step.access.dims, operands)


def carried(problem: Problem, tiling: Tiling, spilled: frozenset[str]) -> Choice | None:
    """A rival's tiling as a choice of this problem; None if it spills other storages or a candidate is missing."""
    picks = []
    resident = frozenset(tiling.resident)
    if frozenset(tiling.spilled) != spilled:
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
    return Choice(tuple(picks), resident, objective(problem, picks))
