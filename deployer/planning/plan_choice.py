"""The plan of a schedule: tiles and addresses, with argument tables resident, fetched or shared."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from deployer.core.artefact import digest
from deployer.core.errors import PlacementInfeasible, TilingInfeasible
from deployer.core.level import L_INNER
from deployer.core.plan import Lifetimes, Plan, RunOptions, Tiling, target_for
from deployer.loops.graph_program import Lowered
from deployer.planning import place, tile
from deployer.planning.cross_step.choose import with_cross_step_transfers
from deployer.planning.cross_step.fused_launches import with_fused_launches
from deployer.planning.place import PackingGap
from deployer.planning.sharing import with_shared_tables
from deployer.planning.timeline import StepRuns
from deployer.planning.workers import gc_paused
from deployer.tilers.levels.tables import ArgumentTables, tables_to_try, worthwhile
from deployer.tilers.strategies.strategy import strategy
from deployer.verify.plan import verify_plan
from deployer.verify.tiling import verify_tiling
from deployer.verify.tolerances import TOLERANCES

K = TypeVar("K", Tiling, Plan)
Progress = Callable[[str], None]
PACKING_ATTEMPTS = 6
MIXED_MILLI = 1
"""Thousandths of its cycles that a strategy has to gain over its alternatives.

Picking the minimum of many near-equal estimates favours underestimates (winner's curse), hence the margin.
"""
ONCE = RunOptions(1, TOLERANCES.loss, 0)
"""Running for cases without training: one forward pass under the default tolerance."""


def silent(message: str) -> None:
    """A progress function that prints nothing."""


@gc_paused()
def plan_best(
    lifetimes: Lifetimes, running: RunOptions = ONCE, progress: Progress = silent, jobs: int = 0
) -> tuple[Tiling, Plan]:
    """Plan with the chosen strategy and with every alternative; return the plan with the fewest predicted cycles.

    The strategy's own mix of bufferings is taken if it gains a thousandth. Where some storages are spilled, each
    strategy is tiled again with homes that a search finds. `jobs` tilings are solved at a time, by default as many as
    there are cores; the plan is the same to the byte.
    """
    name = lifetimes.schedule.options.strategy
    tiler, best = _finished(name, False, None, lifetimes, running, progress, jobs)
    most = _scored(name, tiler, *best)
    alternatives = [(alternative, False) for alternative in strategy(name).alternatives]
    alternatives += [(other, True) for other in (name, *strategy(name).alternatives)] if best[0].spilled else []
    for alternative, searched in alternatives:
        if (alternative, searched) != (name, True) and not _can_improve(alternative, searched, tiler, best[0], most):
            continue
        progress(f"{alternative} {'with a search for homes' if searched else 'to its end'}")
        with suppress(TilingInfeasible, PlacementInfeasible):
            tiler, other = _finished(alternative, searched, tiler, lifetimes, running, progress, jobs)
            if (cycles := _scored(name, tiler, *other)) < most:
                best, most = other, cycles
    return best[0], _sealed(*best)


def _sealed(tiling: Tiling, plan: Plan) -> Plan:
    """The plan with its tiling's digest, both verified: of those that were compared only this one is used."""
    verify_tiling(tiling)
    plan = replace(plan, digest=digest(tiling))
    verify_plan(plan, tiling)
    return plan


def _finished(
    name: str,
    searched: bool,
    tiler: tile.Tiler | None,
    lifetimes: Lifetimes,
    running: RunOptions,
    progress: Progress,
    jobs: int,
) -> tuple[tile.Tiler, tuple[Tiling, Plan]]:
    """A strategy's plan, whose argument tables are resident, unless they fit only by groups, or are worth fetching or
    sharing; and the tiler, which knows what an earlier one found. With `searched` homes are those of a search.
    """
    found: tuple[Tiling, Plan] | None = None
    fault: TilingInfeasible | None = None
    for tables in tables_to_try(lifetimes.schedule.steps, target_for(lifetimes.schedule)):
        if found and not tables.alternative:
            break
        if tables.groups:
            progress(f"argument tables in {len(tables.groups)} groups")
        tiler = tile.Tiler(lifetimes, tables, tiler, name, searched)
        try:
            found = _plan_tiled(tiler, found, progress, running, jobs)
        except TilingInfeasible as problem:
            fault = problem
        except PlacementInfeasible:
            if found is None:
                raise
    if found is None:
        assert fault is not None
        raise fault
    assert tiler is not None
    return tiler, (
        found[0],
        _once(tiler.across_steps, found[1], partial(_across_steps, found[1], tiler.lowered)),
    )


def _once(known: list[tuple[K, Plan]], of: K, make: Callable[[], Plan]) -> Plan:
    """The plan that was made of an equal tiling or plan before, or is made now: strategies often agree on one."""
    for other, plan in known:
        if other == of:
            return plan
    known.append((of, make()))
    return known[-1][1]


def _can_improve(alternative: str, searched: bool, tiler: tile.Tiler, best: Tiling, most: int) -> bool:
    """Whether the lower bound of an alternative's plan is below `most` thousandths of a cycle."""
    tilings = [found for key, found in tiler.alone.items() if key[:2] == (alternative, searched)]
    return any(tile.least(tiling, runs) * 1000 < most for tiling, runs in tilings if tiling != best)


def _scored(name: str, tiler: tile.Tiler, tiling: Tiling, plan: Plan) -> int:
    """Thousandths of a plan's model cycles, with the margin for a tiling that no alternative has."""
    others = [found for key, (found, _) in tiler.alone.items() if key[0] in strategy(name).alternatives]
    return _update_cycles(tiling, plan) * (1000 + (MIXED_MILLI if others and tiling not in others else 0))


def _update_cycles(tiling: Tiling, plan: Plan) -> int:
    """Model cycles of one update."""
    schedule = tiling.lifetimes.schedule
    return sum(schedule.repeats(step) * s.cycles for step, s in zip(schedule.steps, plan.steps, strict=True))


def plan_with_tables(
    lifetimes: Lifetimes, tables: ArgumentTables, progress: Progress = silent, running: RunOptions = ONCE, jobs: int = 0
) -> tuple[Tiling, Plan]:
    """Tiles and addresses for these tables; a packing that leaves a gap tightens the tiling by it."""
    tiling, plan = _plan_tiled(tile.Tiler(lifetimes, tables), None, progress, running, jobs)
    return tiling, _sealed(tiling, plan)


def _plan_tiled(
    tiler: tile.Tiler, alternative: tuple[Tiling, Plan] | None, progress: Progress, running: RunOptions, jobs: int
) -> tuple[Tiling, Plan]:
    """Tiles and addresses, or the alternative, a plan of the same program, where they gain too little.

    Steps share tables in place of groups where that costs next to nothing; such a plan need not be quicker than the
    alternative, but may not be slower.

    The alternative's packing of the outer levels left gaps, and so would this one. A tiling that gains too little is
    not placed: what further gaps do to it is no gain.
    """
    target, most = tiler.target, 0
    packing_slack = tile.no_gaps(target)
    if alternative:
        packing_slack = (*packing_slack[: L_INNER + 1], *alternative[0].packing_slack[L_INNER + 1 :])
        most = _update_cycles(*alternative)
    for attempt in range(1, PACKING_ATTEMPTS + 1):
        stage = f"tiles, {sum(packing_slack)} B withheld for packing" if any(packing_slack) else "tiles"
        progress(stage)
        tiling = tiler.tile(packing_slack, jobs, partial(_say, progress, stage))
        shared = with_shared_tables(tiling, tiler.runs)
        tiling, runs = shared or (tiling, tiler.runs)
        cycles = tile.predicted(tiling, runs)
        if alternative and not (cycles <= most if shared else worthwhile(cycles, most)):
            return alternative
        try:
            progress("addresses")
            last = attempt == PACKING_ATTEMPTS
            placing = partial(place.place_buffers, tiling, running, last, runs, sealed=False)
            return tiling, _once(tiler.placed, tiling, placing)
        except PackingGap as problem:
            packing_slack = problem.packing_slack
    raise TilingInfeasible(
        f"live buffers could not be packed in {PACKING_ATTEMPTS} attempts",
        [("withheld", ", ".join(f"{gap} B of {x.name}" for x, gap in zip(target.levels, packing_slack, strict=False)))],
        "a larger " + " or ".join(target.budget_flag(level) for level in target.levels[: len(packing_slack)]),
    )


def _say(progress: Progress, stage: str, text: str) -> None:
    progress(f"{stage}, {text}")


def place_tiling(
    tiling: Tiling, running: RunOptions = ONCE, progress: Progress = silent, runs: StepRuns | None = None
) -> Plan:
    """Addresses for a tiling, both verified, with each transfer in its step.

    `runs` is for speed.
    """
    verify_tiling(tiling)
    progress("addresses")
    plan = place.place_buffers(tiling, running, runs=runs)
    verify_plan(plan, tiling)
    return plan


def across_steps(tiling: Tiling, plan: Plan) -> Plan:
    """The tiling's plan with cross-step transfers and fused launches, verified."""
    better = _across_steps(plan)
    if better != plan:
        verify_plan(better, tiling)
    return better


def _across_steps(plan: Plan, lowered: Lowered | None = None) -> Plan:
    """The plan with cross-step transfers and fused launches; `lowered` is for speed."""
    known: Lowered = {} if lowered is None else lowered
    if plan.options.cross_step_prefetch:
        plan = with_cross_step_transfers(plan, known)
    return with_fused_launches(plan, known)
