"""Tiling: by CP-SAT, level by level from the outermost, the tiles, loop order and buffering of steps, and the homes."""

from deployer.core.errors import InternalError
from deployer.core.level import RESIDENT, USUAL
from deployer.core.plan import Lifetimes, Tiling, target_for
from deployer.core.target import Target
from deployer.planning.timeline import StepRuns
from deployer.tilers.levels.between import BetweenLevel, StagedSteps, fits
from deployer.tilers.levels.flat import flat_tiling
from deployer.tilers.levels.inner import InnerLevel, carried
from deployer.tilers.levels.model import solve
from deployer.tilers.levels.staging import NOTHING, Spill
from deployer.tilers.strategies.strategy import strategy


def no_gaps(target: Target) -> tuple[int, ...]:
    """Gaps of 0 bytes for each level but the last."""
    return (0,) * len(target.hops)


class Tiler:
    """Tiles one program, again with more bytes withheld where a packing needs it; attempts share what they can."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.lifetimes, self.target = lifetimes, target_for(lifetimes.schedule)
        self.runs = StepRuns(lifetimes.schedule, self.target)
        self._inner: dict[tuple[int, bool], InnerLevel] = {}
        self._staged: StagedSteps = {}

    def tile(self, gaps: tuple[int, ...] = ()) -> Tiling:
        """Solve all levels under the options' strategy and its rivals, and return the tiling with the fewest cycles.

        `gaps` are the bytes withheld from each level's budget because an earlier placement did not fit. If that leaves
        too little of the innermost level, nothing is resident there, as slots alone always pack. Raises
        TilingInfeasible with the step that needs the most bytes, and a budget that suffices. With one level there is
        nothing to solve.
        """
        options, target = self.lifetimes.schedule.options, self.target
        if not target.hops:
            return flat_tiling(self.lifetimes, target)
        gaps = gaps or no_gaps(target)
        rooms = [level.budget - gap for level, gap in zip(target.levels, (*gaps, 0), strict=True)]
        inner = self._inner_level(gaps[RESIDENT], True)
        if gaps[RESIDENT] and inner.unfit(options.strategy):
            inner = self._inner_level(0, False)
        if inner.unfit(options.strategy):
            raise inner.too_small(options.strategy)
        between = BetweenLevel(self.lifetimes, target, rooms[USUAL], self._staged)
        best: tuple[int, Tiling] | None = None
        for name in (*strategy(options.strategy).rivals, options.strategy):
            if inner.unfit(name):
                continue
            tiling = _solved(name, inner, between, best[1] if best else None, gaps)
            cycles = predicted(tiling, self.runs)
            if best is None or cycles < best[0]:
                best = (cycles, tiling)
        assert best is not None
        return best[1]

    def _inner_level(self, gap: int, residents: bool) -> InnerLevel:
        key = (gap, residents)
        if key not in self._inner:
            self._inner[key] = InnerLevel(self.lifetimes, self.target, gap, residents)
        return self._inner[key]


def _solved(name: str, inner: InnerLevel, between: BetweenLevel, rival: Tiling | None, gaps: tuple[int, ...]) -> Tiling:
    """The tiling under one strategy. Storages are spilled only if the homes do not fit the level between."""
    lifetimes, target, room = inner.lifetimes, inner.target, between.capacity
    may_spill = lifetimes.schedule.options.outermost != target.usual.name
    everything_fits = fits(lifetimes, target, room, frozenset())
    nearly = fits(lifetimes, target, room + target.levels[RESIDENT].budget, frozenset())
    tiling = None
    if everything_fits or nearly or not may_spill:
        tiling = _inner(name, inner, NOTHING, rival, gaps)
    if tiling is None or (may_spill and not fits(lifetimes, target, room, frozenset(tiling.resident))):
        tiling = _inner(name, inner, between.spill(name, inner), rival, gaps)
    return tiling


def _inner(name: str, inner: InnerLevel, spill: Spill, rival: Tiling | None, gaps: tuple[int, ...]) -> Tiling:
    problem = inner.problem(name, spill)
    choice = solve(problem, carried(problem, rival, spill.storages) if rival else None)
    if choice is None:
        raise InternalError("every step fits alone, and the tiling model found nothing")
    return inner.tiling(problem, choice, spill, gaps)


def predicted(tiling: Tiling, runs: StepRuns) -> int:
    """Model cycles of one update: the training graph once per pass, the optimizer once."""
    schedule, total = tiling.lifetimes.schedule, 0
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        total += schedule.repeats(step) * runs.of(step, choice).cycles
    return total
