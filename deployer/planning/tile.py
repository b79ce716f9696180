"""Tiling: by CP-SAT, level by level from the outermost, the tiles, loop order and buffering of steps, and the homes."""

import math
from collections.abc import Callable

from deployer.core.access import box_shape
from deployer.core.errors import TilingInfeasible
from deployer.core.level import L_HOME, L_INNER
from deployer.core.plan import Lifetimes, Plan, Stage, Step, Tiling, target_for
from deployer.core.target import Target
from deployer.loops.graph_program import Lowered
from deployer.planning.alternatives import Alternative
from deployer.planning.timeline import StepRuns
from deployer.planning.workers import ProgressCounter, Workers, cores
from deployer.tilers.levels.flat import flat_tiling
from deployer.tilers.levels.inner import Costed, InnerLevel
from deployer.tilers.levels.middle_level import MiddleLevel, StagedSteps
from deployer.tilers.levels.tables import ArgumentTables, resident_tables
from deployer.tilers.strategies.strategy import strategy

BEHIND_MILLI = 30
"""Thousandths of cycles by which an alternative that is further behind in one attempt is left out of the next ones."""


Attempt = tuple[str, bool, ArgumentTables, tuple[int, ...]]
"""A strategy, whether homes are searched for, tables, and bytes withheld from each level."""


def no_gaps(target: Target) -> tuple[int, ...]:
    """Gaps of 0 bytes for each level but the last."""
    return (0,) * len(target.hops)


class Tiler:
    """Tiles one program, again with more bytes withheld where a packing needs it; attempts share what they can."""

    def __init__(
        self,
        lifetimes: Lifetimes,
        tables: ArgumentTables | None = None,
        other: "Tiler | None" = None,
        name: str = "",
        searched: bool = False,
    ) -> None:
        """`other` is one for the same lifetimes and other tables; what depends on neither is shared with it.

        It has the plans that were made of tilings before, and the plans with cross-step transfers and launches made
        of these.
        `name` is the strategy, by default that of the options. With `searched`, homes in the middle level are those
        that a search by its clock finds, and not the solver's.
        """
        self.lifetimes, self.target = lifetimes, target_for(lifetimes.schedule)
        self.strategy = name or lifetimes.schedule.options.strategy
        self.tables = tables or resident_tables(lifetimes.schedule.steps, self.target)
        self.searched = searched
        known: StepRuns | None = other.runs if other else None
        self.runs: StepRuns = StepRuns(lifetimes.schedule, self.target, self.tables.groups, known=known)
        self.lowered: Lowered = other.lowered if other else {}
        self._inner: dict[tuple[ArgumentTables, int, bool], InnerLevel] = other._inner if other else {}
        self._costed: Costed = other._costed if other else Costed()
        self._staged: StagedSteps = other._staged if other else {}
        self._middle: dict[tuple[int, InnerLevel], MiddleLevel] = other._middle if other else {}
        self._behind: frozenset[str] = other._behind if other else frozenset()
        self.alone: dict[Attempt, tuple[Tiling, StepRuns]] = other.alone if other else {}
        self.placed: list[tuple[Tiling, Plan]] = other.placed if other else []
        self.across_steps: list[tuple[Plan, Plan]] = other.across_steps if other else []

    def tile(
        self, packing_slack: tuple[int, ...] = (), jobs: int = 0, say: Callable[[str], None] = lambda text: None
    ) -> Tiling:
        """Solve all levels under the strategy and its alternatives, and return the tiling with the fewest cycles.

        An alternative's tiling is the one that it has as the strategy; it is in `alone`, and not solved again.

        `packing_slack` are the bytes withheld from each level's budget because an earlier placement did not fit. If
        that leaves too little of the innermost level, nothing is resident there, as slots alone always pack. Raises
        TilingInfeasible with the step that needs the most bytes, and a budget that suffices. With one level there is
        nothing to solve. `jobs` alternatives are solved at a time, by default as many as there are cores; it changes no
        bit. `say` is told what is done.
        """
        target = self.target
        if not target.hops:
            return flat_tiling(self.lifetimes, target)
        packing_slack = packing_slack or no_gaps(target)
        asked = self.strategy, self.searched, self.tables, packing_slack
        if asked in self.alone:
            return self.alone[asked][0]
        rooms = [level.budget - gap for level, gap in zip(target.levels, (*packing_slack, 0), strict=True)]
        inner = self._inner_level(packing_slack[L_INNER], True)
        if packing_slack[L_INNER] and inner.unfit(self.strategy):
            inner = self._inner_level(0, False)
        if inner.unfit(self.strategy):
            raise inner.too_small(self.strategy)
        middle = self._middle_level(rooms[L_HOME], inner)
        names = [x for x in strategy(self.strategy).alternatives if x not in self._behind and not inner.unfit(x)]
        best: tuple[int, Tiling] | None = None
        found = dict[str, int]()
        progress = ProgressCounter(say)
        with Workers(jobs or cores()) as workers:
            alternatives = [
                Alternative(name, inner, middle, packing_slack, workers, progress, (), self.searched) for name in names
            ]
            alternatives.append(
                Alternative(self.strategy, inner, middle, packing_slack, workers, progress, tuple(names), self.searched)
            )
            for alternative in alternatives:
                start = best[1] if best and alternative is alternatives[-1] else None
                try:
                    tiling = alternative.tiling(start)
                except TilingInfeasible:
                    if alternative is alternatives[-1]:
                        raise
                    continue  # a strategy that needs more room than the one that was asked for
                if start is None:
                    self.alone[alternative.name, self.searched, self.tables, packing_slack] = tiling, self.runs
                found[alternative.name] = cycles = predicted(tiling, self.runs)
                if best is None or cycles < best[0]:
                    best = (cycles, tiling)
        assert best is not None
        self._behind |= {x for x in names if x in found and found[x] * 1000 > best[0] * (1000 + BEHIND_MILLI)}
        return best[1]

    def _middle_level(self, room: int, inner: InnerLevel) -> MiddleLevel:
        """The middle level with so much room, which keeps what it found for an inner level."""
        if (room, inner) not in self._middle:
            self._middle[room, inner] = MiddleLevel(self.lifetimes, self.target, room, self._staged)
        return self._middle[room, inner]

    def _inner_level(self, gap: int, residents: bool) -> InnerLevel:
        key = (self.tables, gap, residents)
        if key not in self._inner:
            self._inner[key] = InnerLevel(self.lifetimes, self.target, gap, residents, self.tables, self._costed)
        return self._inner[key]


def predicted(tiling: Tiling, runs: StepRuns) -> int:
    """Model cycles of one update: the training graph once per pass, the optimizer once."""
    schedule, total = tiling.lifetimes.schedule, 0
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        total += schedule.repeats(step) * runs.of(step, choice).cycles
    return total


def least(tiling: Tiling, runs: StepRuns) -> int:
    """Model cycles of one update, at least, with any cross-step transfers: without the first transfers and the last.

    Of a step that may share the start of another, its kernel's cycles remain.
    """
    schedule, total = tiling.lifetimes.schedule, 0
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        run = runs.of(step, choice)
        waits = run.timeline.ingress_wait[0] + run.timeline.egress_wait[-1]
        hidden = min(run.staging.wait, _ends(step, choice.stage, runs.target)) if run.staging else waits
        resident = not any(choice.slots.values())
        cycles = run.tile_cycles[0] - runs.target.dispatch if resident else run.cycles - hidden
        total += schedule.repeats(step) * cycles
    return total


def _ends(step: Step, stage: Stage | None, target: Target) -> int:
    """Cycles of the first and the last transfer of each operand of a stage."""
    cycles, hop = 0, target.hops[L_HOME]
    for o in step.access.operands:
        if stage and o.arg in stage.slots:
            size = math.prod(box_shape(o, stage.tile)) * step.kernel.element_bytes(o.arg)
            cycles += (o.mode != "out") * (hop.issue + hop.wait + hop.inward.cycles(size, 1))
            cycles += (o.mode != "in") * (hop.issue + hop.wait + hop.outward.cycles(size, 1))
    return cycles
