"""The planned timeline has the cycles of the simulated machine, also for a machine with other costs.

A step takes more after one with other code, which took the place of its own in the instruction cache.
"""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.cost import cold_start, cost_key
from deployer.core.kernel import Work
from deployer.core.level import InstructionCache
from deployer.core.operator import operator_of
from deployer.core.plan import Options, target_for
from deployer.core.target import load
from deployer.planning.schedule import icache_miss_permille
from deployer.planning.timeline import simulate
from DeployTest.support.building.cases import check_clock, compile_case, load_case

pytestmark = [pytest.mark.host, pytest.mark.training]
ICACHE = InstructionCache(fill_cycles=2000)


@pytest.mark.parametrize("strategy", ["single", "double"])
def test_where_waiting_takes_time(
    strategy: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait for a transfer has a cost, except for one that was never started; the hops have exchanged engines."""
    folder = tmp_path / "targets"
    shutil.copytree(targets.TARGETS_DIR, folder)
    costs = folder / "siracusa" / "costs.toml"
    text = costs.read_text()
    assert text.count("wait = 0\n") == 2
    text = text.replace("wait = 0\n", "wait = 7\n", 1).replace("wait = 0\n", "wait = 23\n", 1)
    swapped = {"shared = true": "shared = false", "shared = false": "shared = true"}
    costs.write_text(re.sub("shared = (true|false)", lambda match: swapped[match[0]], text))
    monkeypatch.setattr(targets, "TARGETS_DIR", folder)
    assert [hop.wait for hop in targets.load("host").hops] == [7, 23]
    case = load_case("simple_mlp", models_root)
    built = compile_case(case, tmp_path / "c", strategy, 1600, l2=4000, outermost="L3")
    assert any(step.staging for step in built.plan.steps)
    assert any(op.slots > 1 for step in built.plan.steps for op in step.operands) == (strategy != "single")
    check_clock(built, built.run())


@pytest.mark.parametrize(("others", "milli"), [(0, 0), (500, 250), (1999, 999), (2000, 1000), (9000, 1000)])
def test_shares(others: int, milli: int) -> None:
    """Nothing of a cold start returns without other code, all of it where that fills the cache."""
    assert ICACHE.milli(others) == milli
    assert InstructionCache(0).milli(others) == 0, "without a cache there is nothing to lose"


def test_timeline(models_root: Path) -> None:
    """A step takes so much of its kernel's cold start more, whatever its tiles."""
    case = load_case("simple_mlp", models_root)
    tiling, plan = pipeline.plan_case(case, Options("host", "double", {"L1": 2000}))
    target = target_for(tiling.lifetimes.schedule)
    assert any(len(step.tile_cycles) > 1 for step in plan.steps)
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        work = operator_of(step.node).work(step.node, step.access, choice.tile, target.kernel_model)
        cold = cold_start(target, step.kernel.symbol, work)
        assert cold > 0
        same = simulate(replace(step, icache_miss_permille=0), choice, target, True).tile_cycles
        for milli in (1, 400, 1000):
            cycles = simulate(replace(step, icache_miss_permille=milli), choice, target, True).tile_cycles
            assert cycles[0] - same[0] == cold * milli // 1000
            assert cycles[1:] == same[1:]


def test_what_evicts_code() -> None:
    """Code that ran since a form's last step, each form once, also that of the pass before; its own evicts nothing."""
    cost = load("siracusa").kernels["default"]
    colds = {"a": 300, "b": 500, "c": 1000}
    kernels = {name: replace(cost, cold=cold) for name, cold in colds.items()}
    target = replace(load("siracusa"), kernels=kernels | {"default": cost}, icache=ICACHE)
    assert icache_miss_permille(["a", "a", "a"], target) == [0, 0, 0]
    assert icache_miss_permille(["a", "b"], target) == [250, 150]
    assert icache_miss_permille(["a", "b", "b", "a", "c"], target) == [500, 650, 0, 250, 400]


def test_the_longest_phase_is_cold() -> None:
    """Of a call in several phases, which cores reach at different times, the longest cold start counts alone."""
    cost = load("siracusa").kernels["default"]
    kernels = {f"m.{form}": replace(cost, cold=cold) for form, cold in (("a", 300), ("b", 700), ("c", 500))}
    target = replace(load("siracusa"), kernels=kernels | {"default": cost})
    assert cold_start(target, "m", Work(1, 1, 1, "a", then=Work(1, 1, 1, "b", then=Work(1, 1, 1, "c")))) == 700


def test_forms_have_code_in_common() -> None:
    """Code of all forms of a kernel is there again after any of them, and counts once among what evicts others."""
    cost = load("siracusa").kernels["default"]
    colds = {"k.a": 400, "k.b": 600, "m": 1000}
    kernels = {name: replace(cost, cold=cold) for name, cold in colds.items()}
    target = replace(load("siracusa"), kernels=kernels | {"default": cost}, icache=replace(ICACHE, shared_permille=500))
    half = ICACHE.milli(1000), ICACHE.milli(1400)
    assert half == (500, 700)
    assert icache_miss_permille(["k.a", "k.b"], target) == [200 * 200 // 400, 100 * 400 // 600]
    after_a, after_b = 1000 + 600 - 200, 1000 + 400 - 200
    assert icache_miss_permille(["k.a", "k.b", "m"], target) == [
        (ICACHE.milli(after_a) * 200 + 500 * 200) // 400,
        ICACHE.milli(after_b) * 400 // 600,
        ICACHE.milli(400 + 600 - 200),
    ]


def test_forms_are_other_code(models_root: Path) -> None:
    """Instruction-cache misses are counted by kernel and variant, over the graphs in turn."""
    target, case = load("siracusa"), load_case("autoencoder", models_root)
    steps = pipeline.plan_case(case, Options("siracusa", "single", {"L1": 64000}))[0].lifetimes.schedule.steps
    forms = [operator_of(s.node).work(s.node, s.access, s.access.sizes, target.kernel_model).cost_class for s in steps]
    codes = [cost_key(s.kernel.symbol, form) for s, form in zip(steps, forms, strict=True)]
    assert len({code for code in codes if code.startswith("gemm_f32")}) > 1
    assert [s.icache_miss_permille for s in steps] == icache_miss_permille(codes, target)
    assert {0} < {s.icache_miss_permille for s in steps}


def test_starts_of_loops(models_root: Path) -> None:
    """Each tile after the first takes the loop's code, and that of each transfer whose box has changed.

    The first one takes what begins and ends a loop with double buffers.
    """
    case = load_case("simple_mlp", models_root)
    tiling, _ = pipeline.plan_case(case, Options("host", "double", {"L1": 2000}))
    schedule, several = tiling.lifetimes.schedule, 0
    plain = replace(target_for(schedule), double_buffer_setup=0, tile=0, dma_issue=0)
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        tiles = [tile for _, walk in choice.walk(step.access) for tile in walk]
        moves = [o for o in step.access.operands if choice.slots.get(o.arg)]
        boxes = [[o.box(tile) for o in moves] for tile in tiles]
        before = simulate(step, choice, plain, True).tile_cycles
        after = simulate(step, choice, replace(plain, double_buffer_setup=30, tile=7, dma_issue=100), True).tile_cycles
        assert after[0] - before[0] == (30 if len(tiles) > 1 and choice.buffering == "double" else 0)
        for i in range(1, len(tiles)):
            ways = sum((o.reads + o.writes) for o, a, b in zip(moves, boxes[i - 1], boxes[i], strict=True) if a != b)
            assert after[i] - before[i] == 7 + 100 * ways
            several += ways
    assert several
