"""Steps that share one start of the cores: which do, the same bits, the model's cycles, and what is against it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import RunFailed
from deployer.core.level import FusedLaunch, followers
from deployer.core.plan import Options, Plan, PlanStep, Tiling, target_of
from deployer.kernel_variants import conditions
from deployer.kernel_variants.conditions import KernelVariant
from deployer.loops.graph_program import timed
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.planning import plan_choice
from deployer.planning.cross_step.fused_launches import with_fused_launches
from deployer.tilers.levels.tables import tables_in
from deployer.verify.plan import verify_plan
from DeployTest.support.building.cases import (
    Built,
    case_dir,
    check_clock,
    compile_case,
    load_case,
    planned,
    result_hash,
)
from DeployTest.support.building.planted import planted
from DeployTest.verify.plan_edits import refused

pytestmark = [pytest.mark.host, pytest.mark.training]
SMALL = """#include "sgd_f32.h"
#define UPDATE sgd_f32_args_t
#define FACTOR NO_FACTOR
#include "sgd_update_f32.h"

void sgd_f32_small(const void *args)
{
    sgd_update(args);
}
"""
"""The kernel of an update under another name."""
L1 = 64000
"""All of the small network's tensors but its sample are resident."""


@pytest.fixture(scope="module")
def built(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The small network with rates of its own at each update, so that its optimizer's steps share a number."""
    case = pipeline.load_training(case_dir("simple_mlp", models_root), lr_schedule=read_schedule("linear"))
    return compile_case(case, tmp_path_factory.mktemp("fused_launches"), "single", L1)


def optimizer_steps(plan: Plan) -> list[int]:
    """The steps of the optimizer's graph."""
    return [step.index for step in plan.steps if step.graph == "optimizer"]


def without(plan: Plan) -> Plan:
    """The plan whose options forbid bundles, with the cycles that it then has."""
    return timed(replace(plan, fused_launches=(), steps=tuple(whole(plan))))


def whole(plan: Plan) -> Iterator[PlanStep]:
    """The steps, those behind the first of a launch with the start that they do without."""
    dispatch, late = target_of(plan.options).dispatch, followers(plan.fused_launches)
    for step in plan.steps:
        yield replace(step, tile_cycles=(step.tile_cycles[0] + dispatch,)) if step.index in late else step


def test_one_start_for_the_update(built: Built, models_root: Path, tmp_path: Path) -> None:
    """The update is one start; rates reach every step, the clock is the plan's, and names and homes stay."""
    plan = built.plan
    [launch] = [b for b in plan.fused_launches if plan.steps[b.first].graph == "optimizer"]
    assert list(launch.steps) == optimizer_steps(plan)
    text = (built.directory / "OptimizerNetwork.c").read_text()
    assert text.count("hal_parallel") == 1
    apart = compile_case(built.case, tmp_path / "apart", "single", L1, opt_out=tuple(s.name for s in plan.steps))
    assert not apart.plan.fused_launches
    assert (apart.plan.homes, apart.plan.weights) == (plan.homes, plan.weights)
    assert apart.plan.cycles("optimizer") > plan.cycles("optimizer")
    expected = result_hash(apart.run())
    for order in ("forward", "reverse", "random"):
        outcome = built.run("--core-order", order)
        assert result_hash(outcome) == expected
        check_clock(built, outcome)


@pytest.mark.parametrize("machine", ["host", "host_flat"])
def test_functions_of_their_own(machine: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of one start may call different functions of their kernel, in the simulator and on threads: no bit changes,
    nor does the simulator's clock.
    """
    source = tmp_path / "small.c"
    source.write_text(SMALL)
    small = KernelVariant("small", source, ("n <= 100",), (), {}, frozenset({"n"}))
    monkeypatch.setattr(conditions, "_listed", lambda symbol, _: (small,) if symbol == "sgd_f32" else ())
    options = built.plan.options if machine == "host" else Options(machine, cores=3)
    tiling, plan = pipeline.plan_case(built.case, options)
    pipeline.write_case(built.case, tiling, plan, tmp_path)
    pipeline.build_case(plan, tmp_path)
    own = Built(built.case, tiling, plan, tmp_path)
    verify_plan(own.plan, own.tiling)
    assert {own.plan.steps[i].function for i in optimizer_steps(own.plan)} == {"sgd_f32", "sgd_f32_small"}
    text = (own.directory / "OptimizerNetwork.c").read_text()
    assert text.count("hal_parallel") == text.count("hal_parallel_each(") == 1
    outcome = own.run("--core-order", "random") if machine == "host" else pipeline.execute(built.case, plan, tmp_path)
    assert result_hash(outcome) == result_hash(built.run())
    if machine == "host":
        check_clock(own, outcome)


@pytest.mark.parametrize("room", [20, 200])
def test_tables_by_groups(room: int, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables fetched by groups of steps, each fused launch is within one group, and no bit changes."""
    monkeypatch.setattr(plan_choice, "tables_to_try", lambda steps, target: [tables_in(room, steps, target)])
    tiling, plan = pipeline.plan_case(built.case, built.plan.options)
    assert plan.groups
    assert bool(plan.fused_launches) == (optimizer_steps(plan)[1] not in plan.groups)
    pipeline.write_case(built.case, tiling, plan, tmp_path)
    pipeline.build_case(plan, tmp_path)
    grouped = Built(built.case, tiling, plan, tmp_path)
    outcome = grouped.run("--dma-order", "random", "--seed", "3", "--core-order", "random")
    assert result_hash(outcome) == result_hash(built.run())
    check_clock(grouped, outcome)


@pytest.mark.slow
def test_threads_run_bundles(models_root: Path, tmp_path: Path) -> None:
    """On a machine whose cores are threads they are at different steps of a launch at the same time."""
    case, found = load_case("simple_mlp", models_root), []
    for cores in (1, 3):
        tiling, plan = planned(case, Options("host_flat", cores=cores))
        pipeline.write_case(case, tiling, plan, tmp_path / str(cores))
        pipeline.build_case(plan, tmp_path / str(cores))
        found.append((bool(plan.fused_launches), result_hash(pipeline.execute(case, plan, tmp_path / str(cores)))))
    assert found == [(False, found[0][1]), (True, found[0][1])]


def test_who_forbids_them(built: Built) -> None:
    """There are none without rewrites, and a step that is named stays alone."""
    steps = optimizer_steps(built.plan)
    assert not with_fused_launches(
        replace(without(built.plan), options=replace(built.plan.options, allow_rewrites=False)), {}
    ).fused_launches
    named = replace(built.plan, options=replace(built.plan.options, opt_out=(built.plan.steps[steps[0]].name,)))
    assert steps[0] not in {step for b in with_fused_launches(without(named), {}).fused_launches for step in b.steps}


def test_plan_survives_its_file(built: Built) -> None:
    """Bundles are in plan.json, and the plan that is read from it is the same."""
    assert '"fused_launches"' in (built.directory / "plan.json").read_text()
    assert artefact.load(Plan, built.directory / "plan.json", sealed=True) == built.plan


def moved_home(plan: Plan) -> Plan:
    """The plan in which what the second step of the update writes lies where the first one reads."""
    first, second = (plan.steps[i] for i in optimizer_steps(plan)[:2])
    read = plan.home(next(o.storage for o in first.operands if o.mode == "in"))
    written = next(o.storage for o in second.operands if o.mode != "in")
    homes = tuple(replace(h, offset=read.offset) if h.storage == written else h for h in plan.homes)
    return replace(plan, homes=homes)


def test_bytes_of_another_life_are_no_bundle(built: Built) -> None:
    """A tensor may lie where one lay that the step before used last: these steps need the wait between them."""
    assert not with_fused_launches(moved_home(without(built.plan)), {}).fused_launches


def launched_together(plan: Plan, *fused_launches: tuple[int, int]) -> Plan:
    """The plan with these bundles."""
    return replace(plan, fused_launches=tuple(FusedLaunch(*ends) for ends in fused_launches))


BROKEN: dict[str, Callable[[Plan], Plan]] = {
    "one step": lambda p: launched_together(p, (optimizer_steps(p)[0],) * 2),
    "no such step": lambda p: launched_together(p, (optimizer_steps(p)[0], len(p.steps))),
    "twice": lambda p: launched_together(p, *[(optimizer_steps(p)[0], optimizer_steps(p)[1])] * 2),
    "two graphs": lambda p: launched_together(p, (optimizer_steps(p)[0] - 1, optimizer_steps(p)[0])),
    "two kernels": lambda p: launched_together(p, (1, 2)),
    "one after the other": lambda p: launched_together(p, next(dependent(p))),
}
"""Plans that break the rule of bundles."""


def dependent(plan: Plan) -> Iterator[tuple[int, int]]:
    """Neighbours of one kernel of which the second reads what the first writes."""
    for one, two in zip(plan.steps, plan.steps[1:], strict=False):
        if one.kernel == two.kernel and {o.storage for o in one.operands if o.mode == "out"} & {
            o.storage for o in two.operands
        }:
            yield one.index, two.index


@pytest.mark.parametrize("fault", BROKEN)
def test_verifier_refuses(fault: str, built: Built) -> None:
    """Each broken plan is refused under the rule; the plan itself is not."""
    verify_plan(built.plan, built.tiling)
    refused("fused launch", lambda: verify_plan(BROKEN[fault](built.plan), built.tiling))


def test_bundles_want_the_option(built: Built) -> None:
    """A plan whose options forbid rewrites has none."""
    tiling = forbidding(built.tiling)
    options = tiling.lifetimes.schedule.options
    plan = replace(built.plan, options=options, digest=artefact.digest(tiling))
    refused("fused launch", lambda: verify_plan(plan, tiling))


def forbidding(tiling: Tiling) -> Tiling:
    """The tiling with options that forbid rewrites."""
    schedule = tiling.lifetimes.schedule
    options = replace(schedule.options, allow_rewrites=False)
    return replace(tiling, lifetimes=replace(tiling.lifetimes, schedule=replace(schedule, options=options)))


def test_simulator_knows_each_step(built: Built, tmp_path: Path) -> None:
    """A fused launch that is a step short, or whose table is another step's, is named as any step is."""
    calls = {
        "short": (r"(sizeof\(\w+\)), (\d+)\);", r"\1, 1);", r"order"),
        "length": (r"\.n = \d+", ".n = 3", r"argument: 'n'"),
    }
    for name, (pattern, replacement, expected) in calls.items():
        copy = planted(built, tmp_path / name, pattern, replacement, "OptimizerNetwork.c")
        with pytest.raises(RunFailed, match=re.compile(expected)):
            copy.run()
