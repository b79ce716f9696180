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
from deployer.core.cost import kernel_cost
from deployer.core.level import Eviction
from deployer.core.operator import operator_of
from deployer.core.plan import Options, target_for
from deployer.planning.timeline import simulate
from DeployTest.support.building.cases import check_clock, compile_case, load_case

pytestmark = [pytest.mark.host, pytest.mark.training]
EVICTION = Eviction(code=10, milli=400)


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


@pytest.mark.parametrize(
    ("cold", "first", "switched", "cycles"),
    [
        (100, True, True, 110),
        (100, True, False, 110),
        (100, False, True, 50),
        (100, False, False, 0),
    ],
)
def test_shares(cold: int, first: bool, switched: bool, cycles: int) -> None:
    """All of a cold start at first, a share of it after other code, nothing after the same."""
    assert EVICTION.cycles(cold, first, switched) == cycles


def test_timeline(models_root: Path) -> None:
    """A step takes so much more, whatever its tiles."""
    case = load_case("simple_mlp", models_root)
    tiling, plan = pipeline.plan_case(case, Options("host", "double", {"L1": 2000}))
    target = replace(target_for(tiling.lifetimes.schedule), eviction=EVICTION)
    assert any(len(step.tile_cycles) > 1 for step in plan.steps)
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        form = operator_of(step.node).work(step.node, step.access, choice.tile).form
        cold = kernel_cost(target, step.kernel.symbol, form).cold
        same = simulate(replace(step, cold=False, switched=False), choice, target, True).tile_cycles
        for first, switched in ((True, True), (False, True)):
            cycles = simulate(replace(step, cold=first, switched=switched), choice, target, True).tile_cycles
            assert cycles[0] - same[0] == EVICTION.cycles(cold, first, switched)
            assert cycles[1:] == same[1:]


def test_forms_are_other_code(models_root: Path) -> None:
    """The first step of each form of a kernel is cold, and one after another form is switched, as after a kernel."""
    case = load_case("autoencoder", models_root)
    steps = pipeline.plan_case(case, Options("host", "single", {"L1": 128000}))[0].lifetimes.schedule.steps
    codes = [(s.kernel.symbol, operator_of(s.node).work(s.node, s.access, s.access.sizes).form, s.graph) for s in steps]
    assert len({form for symbol, form, _ in codes if symbol == "gemm_f32"}) > 1
    for index, step in enumerate(steps):
        assert step.cold == (codes[index] not in codes[:index])
        assert step.switched == (not index or codes[index][:2] != codes[index - 1][:2])
