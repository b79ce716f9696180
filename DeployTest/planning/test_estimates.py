"""The solver's estimate of a step, which covers all tiles at once, against the timeline, which walks the tiles."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer import pipeline
from deployer.core.cost import call_cost, kernel_cycles, rounded, staged_cycles
from deployer.core.kernel import Work
from deployer.core.level import L_INNER, Channel
from deployer.core.plan import Options, Step, StepTiling, Tiling, target_for
from deployer.core.target import Target, load
from deployer.kernel_variants.costs import CallCosts
from deployer.planning.timeline import simulate
from deployer.tilers.levels import candidates
from deployer.tilers.levels.grid import grid_at
from DeployTest.support.building.cases import load_case
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
BOUND = table()["estimates"]
CASES = [("simple_mlp", 2000), ("autoencoder", 8000), ("autoencoder", 32000), ("transformer", 8000)]
counts = st.integers(0, 1 << 20)


def estimate(step: Step, choice: StepTiling, target: Target, fresh: bool) -> int:
    """The solver's estimate of the step's cycles with these tiles."""
    grid, names = grid_at(step.access, choice.tile), {o.tensor: o.tensor for o in step.access.operands}
    operands = [o for o in step.access.operands if choice.slots[o.arg]]
    parts = (step.access, grid, [choice.order], names, target, fresh, L_INNER)
    moved = [candidates.movement(step, o.arg, *parts) for o in operands]
    kernels = candidates.kernel_totals(grid, target, CallCosts(step, target))
    if not moved:
        return target.step + int(kernels[0])
    everything = np.ones((1, len(moved)), np.bool_)
    return int(candidates._priced(moved, everything, max(choice.slots.values()), kernels, grid.calls, target)[1][0, 0])


def pairs(tiling: Tiling) -> Iterator[tuple[str, int, int]]:
    """Each step's name, estimate and cycles in the timeline, where its code is in the instruction cache."""
    schedule = tiling.lifetimes.schedule
    target, fresh = target_for(schedule), schedule.options.updates_every_pass
    for cold, choice in zip(schedule.steps, tiling.steps, strict=True):
        step = replace(cold, icache_miss_permille=0)
        yield step.name, estimate(step, choice, target, fresh), simulate(step, choice, target, fresh).cycles


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("strategy", ["single", "double"])
@pytest.mark.parametrize(("test", "l1"), CASES)
def test_estimates(test: str, l1: int, strategy: str, models_root: Path) -> None:
    """The estimate is near the timeline for each step, nearer for the program, and exact for some step."""
    case = load_case(test, models_root)
    tiling = pipeline.plan_case(case, Options("host", strategy, {"L1": l1}))[0]
    estimates = list(pairs(tiling))
    assert any(guess == cycles for _, guess, cycles in estimates)
    start = target_for(tiling.lifetimes.schedule).hops[L_INNER].issue
    for name, guess, cycles in estimates:
        assert abs(guess - cycles) <= max(BOUND["step"] * cycles, start), (name, guess, cycles)
    guess, cycles = (sum(pair[i] for pair in estimates) for i in (1, 2))
    assert abs(guess - cycles) <= BOUND["program"] * cycles


@given(counts, counts, st.integers(0, 600), st.tuples(*[st.integers(0, 5000)] * 3))
@settings(deadline=None)
def test_formulas_take_arrays(size: int, lines: int, contention: int, facts: tuple[int, int, int]) -> None:
    """A formula of an array has the values of the formula of each of its elements."""
    channel, sizes = Channel(*facts), np.array([size, size // 2, 0])
    runs = np.array([lines, 1, lines // 3])
    each = [channel.cycles(int(s), int(n), contention) for s, n in zip(sizes, runs, strict=True)]
    assert channel.cycles(sizes, runs, contention).tolist() == each
    assert rounded(sizes, 16).tolist() == [rounded(int(s), 16) for s in sizes]
    for mode in ("single", "double"):
        tiles = runs + 1
        parts = [(int(s), int(n), facts[0], facts[1]) for s, n in zip(sizes, tiles, strict=True)]
        busy, exposed = np.full(3, facts[0]), np.full(3, facts[1])
        assert staged_cycles(sizes, tiles, busy, exposed, mode).tolist() == [staged_cycles(*p, mode) for p in parts]


@given(counts, counts, st.integers(0, 64))
@settings(deadline=None)
def test_full_share_is_the_call(macs: int, elements: int, pieces: int) -> None:
    """All of a call's work (share 1.0) costs as much as the call in the timeline, up to rounding."""
    target = load("siracusa")
    cost = call_cost(target, "gemm_f32", Work(macs, elements, pieces, "matrix"))
    cycles = cost.call + cost.scaled(1.0) / 1000
    assert cost.cycles == kernel_cycles(target, "gemm_f32", Work(macs, elements, pieces, "matrix"))
    assert cost.cycles - 1 <= cycles <= cost.cycles + 1
