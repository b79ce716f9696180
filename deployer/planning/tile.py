"""Tile: level by level from the outermost, tiles, loop order and buffering per step and homes, by CP-SAT."""

from deployer.core.errors import InternalError
from deployer.core.plan import Lifetimes, Tiling
from deployer.core.target import Target, target_for
from deployer.planning.timeline import simulate
from deployer.tilers.levels.between import BetweenLevel, fits
from deployer.tilers.levels.inner import InnerLevel, carried
from deployer.tilers.levels.model import solve
from deployer.tilers.levels.staging import NOTHING, Spill
from deployer.tilers.strategies.strategy import strategy


def run(lifetimes: Lifetimes, gaps: tuple[int, int] = (0, 0)) -> Tiling:
    """Solve the levels under the options' strategy; where it has rivals, the best of all under the exact timeline.

    `gaps` are bytes withheld from the budgets of the first two levels, for a placement that could not be packed; where
    too little is left of the first, nothing becomes resident, and slots alone always pack. Raises TilingInfeasible with
    the step that needs most, its bytes and what would fit.
    """
    options = lifetimes.schedule.options
    target = target_for(lifetimes.schedule)
    inner = InnerLevel(lifetimes, target, gaps[0])
    if gaps[0] and inner.unfit(options.strategy):
        inner = InnerLevel(lifetimes, target, 0, residents=False)
    if inner.unfit(options.strategy):
        raise inner.too_small(options.strategy)
    between = BetweenLevel(lifetimes, target, target.levels[1].budget - gaps[1])
    best: tuple[int, Tiling] | None = None
    for name in (*strategy(options.strategy).rivals, options.strategy):
        if inner.unfit(name):
            continue
        tiling = _solved(name, inner, between, best[1] if best else None, gaps)
        cycles = predicted(tiling, target)
        if best is None or cycles < best[0]:
            best = (cycles, tiling)
    assert best is not None
    return best[1]


def _solved(name: str, inner: InnerLevel, between: BetweenLevel, rival: Tiling | None, gaps: tuple[int, int]) -> Tiling:
    """The tiling under one strategy. Only where the homes do not fit the level between is anything spilled."""
    lifetimes, target = inner.lifetimes, inner.target
    outermost = lifetimes.schedule.options.outermost
    may_spill = outermost not in (level.name for level in target.levels[:2])
    everything_fits = fits(lifetimes, target, gaps[1], frozenset())
    nearly = fits(lifetimes, target, gaps[1] - target.levels[0].budget, frozenset())
    tiling = None
    if everything_fits or nearly or not may_spill:
        tiling = _inner(name, inner, NOTHING, rival, gaps)
    if tiling is None or (may_spill and not fits(lifetimes, target, gaps[1], frozenset(tiling.resident))):
        tiling = _inner(name, inner, between.spill(name, inner), rival, gaps)
    return tiling


def _inner(name: str, inner: InnerLevel, spill: Spill, rival: Tiling | None, gaps: tuple[int, int]) -> Tiling:
    problem = inner.problem(name, spill)
    choice = solve(problem, carried(problem, rival, spill.storages) if rival else None)
    if choice is None:
        raise InternalError("every step fits alone, and the tiling model found nothing")
    return inner.tiling(problem, choice, spill, gaps)


def predicted(tiling: Tiling, target: Target) -> int:
    """Model cycles of one update: the training graph once per pass, the optimizer once."""
    schedule = tiling.lifetimes.schedule
    sole, total = schedule.options.sole_pass, 0
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        total += schedule.repeats(step) * simulate(step, choice, target, sole).cycles
    return total
