"""Tile: for the innermost level, a tile size, loop order and buffering per step and a home per tensor, by CP-SAT."""

from dataclasses import replace

from deployer import target as targets
from deployer.access import Access
from deployer.artefact import digest
from deployer.errors import InternalError, TilingInfeasible
from deployer.plan import Buffering, Lifetimes, Options, Schedule, Step, StepTiling, Tiling
from deployer.simulate import simulate
from deployer.target import Target
from deployer.tilers.candidates import Candidate, enumerate_candidates, pareto, rounded, smallest
from deployer.tilers.model import Choice, Problem, objective, solve
from deployer.tilers.strategy import strategy


def run(lifetimes: Lifetimes, gap: int = 0) -> Tiling:
    """Solve the level under the options' strategy; where it has rivals, the best of all under the exact timeline.

    `gap` bytes are withheld from the budget, for a placement that could not be packed; where too little is left of it,
    nothing becomes resident, and slots alone always pack. Raises TilingInfeasible with the step that needs most, its
    bytes and what would fit.
    """
    chosen = lifetimes.schedule.options.strategy
    level = Level(lifetimes, gap)
    if gap and level.unfit(chosen):
        level = Level(lifetimes, 0, residents=False)
    if level.unfit(chosen):
        raise level.too_small(chosen)
    best: tuple[int, Tiling] | None = None
    for name in (*strategy(chosen).rivals, chosen):
        if level.unfit(name):
            continue
        problem = level.problem(name)
        choice = solve(problem, _carried(problem, best[1]) if best else None)
        if choice is None:
            raise InternalError("every step fits alone, and the tiling model found nothing")
        tiling = level.tiling(problem, choice)
        cycles = predicted(tiling, level.target)
        if best is None or cycles < best[0]:
            best = (cycles, tiling)
    assert best is not None
    return best[1]


def target_of(options: Options) -> Target:
    """The target under the options' budgets and cores."""
    return targets.load(options.target).with_options(options.budgets or {}, options.cores)


def target_for(schedule: Schedule) -> Target:
    """The target under a schedule's options, with the loop costs of a program of its size."""
    return target_of(schedule.options).sized(len(schedule.steps))


def predicted(tiling: Tiling, target: Target) -> int:
    """Model cycles of one update: the training graph once per pass, the optimizer once."""
    schedule = tiling.lifetimes.schedule
    accumulate = schedule.options.accumulate
    total = 0
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        times = accumulate if step.graph == "train" else 1
        total += times * simulate(step, choice, target, accumulate == 1).cycles
    return total


class Level:
    """The innermost level as the solver sees it; candidates are enumerated once for steps of the same geometry."""

    def __init__(self, lifetimes: Lifetimes, gap: int, residents: bool = True) -> None:
        self.lifetimes, self.gap = lifetimes, gap
        self.schedule = lifetimes.schedule
        self.target = target_for(self.schedule)
        program = self.schedule.program
        self.storage_of = {name: program.storage(name) for name in program.tensors}
        size = self.target.pointer_bytes
        tables = [rounded(s.kernel.table_bytes(size), self.target.alignment) for s in self.schedule.steps]
        self.tables = sum(tables)
        self.capacity = self.target.levels[0].budget - self.tables - gap
        data = {program.storage(name) for name in program.data}
        sized = [replace(x, bytes=rounded(x.bytes, self.target.alignment)) for x in lifetimes.storages]
        fitting = [x for x in sized if x.storage not in data and x.bytes <= self.capacity]
        self.eligible = tuple(fitting if residents else ())
        self.names = frozenset(x.storage for x in self.eligible)
        self._found: dict[str, dict[Buffering, list[Candidate]]] = {}
        self._fronts: dict[str, list[Candidate]] = {}

    def problem(self, name: str) -> Problem:
        """The solver's input for one strategy."""
        options = self.schedule.options
        candidates, touches, weights = [], [], []
        for step in self.schedule.steps:
            candidates.append(tuple(self._front(step, strategy(name).modes(step, options))))
            touches.append(frozenset(self.storage_of[o.tensor] for o in step.access.operands) & self.names)
            weights.append(options.accumulate if step.graph == "train" else 1)
        return Problem(tuple(candidates), tuple(touches), self.eligible, self.capacity, tuple(weights))

    def tiling(self, problem: Problem, choice: Choice) -> Tiling:
        """A solver's choice as an artefact."""
        steps = []
        for step, candidates, pick in zip(self.schedule.steps, problem.candidates, choice.picks, strict=True):
            c = candidates[pick]
            steps.append(StepTiling(step.name, c.tile, c.order, c.buffering, c.slots))
        return Tiling(self.lifetimes, tuple(sorted(choice.resident)), tuple(steps), self.tables, self.gap)

    def _front(self, step: Step, modes: tuple[Buffering, ...]) -> list[Candidate]:
        """The step's Pareto front, found under stand-in names so that equal steps share it."""
        stand_in = self._stand_ins(step)
        operands = tuple(replace(o, tensor=stand_in[self.storage_of[o.tensor]]) for o in step.access.operands)
        attrs = {k: v for k, v in step.node.attrs.items() if isinstance(v, (int, float))}
        key = digest((step.kernel.symbol, step.node.op, attrs, Access(step.access.dims, operands)))
        if key not in self._found:
            names = {o.tensor: stand_in[self.storage_of[o.tensor]] for o in step.access.operands}
            may = frozenset(name for name in stand_in.values() if name.startswith("+"))
            fresh = self.schedule.options.accumulate == 1
            self._found[key] = enumerate_candidates(step, names, may, self.target, self.capacity, fresh)
        front = f"{key} {modes}"
        if front not in self._fronts:
            self._fronts[front] = pareto([c for mode in modes for c in self._found[key][mode]])
        back = {name: storage for storage, name in stand_in.items()}
        return [replace(c, resident=frozenset(back[name] for name in c.resident)) for c in self._fronts[front]]

    def _stand_ins(self, step: Step) -> dict[str, str]:
        """A name per storage of the step by first use, `+` in front where it may be resident."""
        names: dict[str, str] = {}
        for operand in step.access.operands:
            storage = self.storage_of[operand.tensor]
            names.setdefault(storage, f"{'+' if storage in self.names else '-'}{len(names)}")
        return names

    def unfit(self, name: str) -> list[Step]:
        """Steps that do not fit under a strategy even with nothing resident."""
        options = self.schedule.options
        return [s for s in self.schedule.steps if not self._fits(s, strategy(name).modes(s, options))]

    def _fits(self, step: Step, modes: tuple[Buffering, ...]) -> bool:
        return any(not candidate.resident for candidate in self._front(step, modes))

    def too_small(self, name: str) -> TilingInfeasible:
        """The error of the step that needs most, so that what it proposes is enough for all."""
        level, target, options = self.target.levels[0], self.target, self.schedule.options
        least = [(step, self._least(step, strategy(name).modes(step, options))) for step in self.unfit(name)]
        step, wanted = max(least, key=lambda x: x[1].bytes)
        single = self._least(step, ("single",))
        lengths = " ".join(f"{k}={v}" for k, v in wanted.tile.items())
        facts = [
            ("smallest tile", f"{lengths}: {wanted.bytes} B, {wanted.buffering} buffering"),
            ("free", f"{max(self.capacity, 0)} B of {level.budget} B (argument tables {self.tables} B)"),
        ]
        other = f", single buffering ({single.bytes} B)" if single.bytes < wanted.bytes else ""
        return TilingInfeasible(
            f"node {step.name!r} ({step.node.op}) does not fit {level.name} of target {target.name!r}",
            facts,
            f"--{level.name.lower()} {wanted.bytes + self.tables}{other}, or a smaller layer",
        )

    def _least(self, step: Step, modes: tuple[Buffering, ...]) -> Candidate:
        """The candidate of least bytes with nothing resident."""
        return min((smallest(step, self.storage_of, self.target, m) for m in modes), key=lambda c: c.bytes)


def _carried(problem: Problem, tiling: Tiling) -> Choice | None:
    """A rival's tiling as a choice of this problem, where its candidates are all there."""
    picks = []
    resident = frozenset(tiling.resident)
    for step, (candidates, choice) in enumerate(zip(problem.candidates, tiling.steps, strict=True)):
        homes = resident & problem.touches[step]
        same = [
            i
            for i, c in enumerate(candidates)
            if (c.tile, c.order, c.slots, c.resident) == (choice.tile, choice.order, choice.slots, homes)
        ]
        if not same:
            return None
        picks.append(same[0])
    return Choice(tuple(picks), resident, objective(problem, picks))
