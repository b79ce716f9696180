"""Argument tables that steps share: which do, what it costs, when a plan has them, and which faults are noticed."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import RunFailed, VerifyFailed
from deployer.core.kernel import Const
from deployer.core.plan import Options, Plan, PlanStep, Step, Tiling, target_for
from deployer.loops.loop_program import AssignStmt
from deployer.loops.lower import has_address, lower
from deployer.planning import plan_choice, sharing
from deployer.planning.fuse import fuse_program
from deployer.planning.lifetimes import find_lifetimes
from deployer.planning.plan_choice import place_tiling, plan_with_tables
from deployer.planning.schedule import make_schedule
from deployer.planning.sharing import shared_tables, with_shared_tables
from deployer.planning.tile import Tiler
from deployer.planning.timeline import StepRuns
from deployer.running.run import Outcome
from deployer.tilers.levels.geometry import loop_key
from deployer.tilers.levels.tables import ArgumentTables, fixed_addresses, shared_bytes, sharers, table_sizes, tables_in
from deployer.verify.boxes import lasting, steady_addresses
from deployer.verify.plan import check_room, verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from deployer.verify.tiling import verify_tiling
from DeployTest.models import transformer
from DeployTest.support.building.cases import Built, check_clock, faults, result_hash
from DeployTest.support.building.planted import changed
from DeployTest.support.graphs.small_graphs import chain, constant, infer, node
from DeployTest.verify.plan_edits import kernels_alone, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
L1, ROOM = 8000, 5000
"""An L1, and so much of it for tables that all have room if steps share them."""


@cache
def case_of(root: Path) -> pipeline.Case:
    """A transformer of two blocks."""
    return pipeline.load_training(transformer.generate(root / "two_blocks", layers=2, tokens=8, width=16, hidden=32))


@cache
def grouped(root: Path) -> tuple[Tiling, StepRuns, Plan]:
    """The test's tiling with groups of tables in that room, its runs and its plan."""
    case, options = case_of(root), pipeline.accumulate_of(case_of(root), Options("host", "single", {"L1": L1}))
    alive = find_lifetimes(make_schedule(fuse_program(case.program, options), options))
    target, running = target_for(alive.schedule), pipeline.running_of(case)
    tables = tables_in(ROOM, alive.schedule.steps, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "hardly_longer", lambda cycles, groups: False)
        tiling, plan = plan_with_tables(alive, tables, running=running)
    return tiling, StepRuns(alive.schedule, target, tiling.groups), plan


@cache
def shared(root: Path) -> tuple[Tiling, Plan]:
    """The same tiles with shared tables, whatever they cost."""
    tiling, runs, plan = grouped(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "hardly_longer", lambda cycles, groups: True)
        found = with_shared_tables(tiling, runs)
    assert found is not None
    return found[0], place_tiling(found[0], plan.running, runs=found[1])


def written(root: Path, folder: Path, tiling: Tiling, plan: Plan) -> Built:
    """The test's program."""
    case = case_of(root)
    pipeline.write_case(case, tiling, plan, folder)
    return Built(case, tiling, plan, folder)


def own(step: PlanStep) -> list[str]:
    """The arguments that a step with a shared table sets before all else."""
    return [s.argument for s in lower(step, 0, step.index).body.body if isinstance(s, AssignStmt)]


@pytest.mark.slow
def test_the_judge_finds_what_lowering_keeps(models_root: Path) -> None:
    """The verifier and the loop program agree on the arguments that stay in a table, and on steady addresses."""
    for step in grouped(models_root)[2].steps:
        program = lower(step)
        changed = {s.argument for s in program.body.walk() if isinstance(s, AssignStmt)}
        kept = {name for name, _ in step.kernel.scalars if lasting(step, step.args[name]) is not None}
        assert kept == {name for name, _ in step.kernel.scalars} - changed
        values = {name: value for name, value in program.arguments if isinstance(value, int)}
        assert values == {n: v for n in values if (v := lasting(step, step.args[n])) is not None}
        addresses = sum(has_address(value) for _, value in program.arguments)
        assert addresses == fixed_addresses(step) == steady_addresses(step)


def test_an_address_inside_of_a_tensor(tmp_path: Path) -> None:
    """The address of a resident tensor's second row, from which a step reads, is set by the sharers."""
    bounds = [constant(name, np.array([at])) for name, at in (("first", 1), ("end", 3), ("axis", 0))]
    nodes = (
        node("Relu", ("x",), ("h",)),
        node("Slice", ("h", "first", "end", "axis"), ("k",)),
        node("Exp", ("k",), ("y",)),
    )
    program = infer(tmp_path, chain(*nodes, x=(4, 3), initializers=bounds))
    plan = pipeline.plan_program(program, Options("host", "single", {"L1": L1}))[1]
    [step] = (step for step in plan.steps if step.op == "Slice")
    assert own(step) == ["x", "y"]
    assert fixed_addresses(step) == steady_addresses(step) == len(own(step))


def test_who_shares(models_root: Path) -> None:
    """Sharers have one kernel, graph and set of lasting arguments; they are many, and their tables fit the room."""
    tiling, plan = shared(models_root)
    target, steps = target_for(tiling.lifetimes.schedule), plan.steps
    assert not plan.groups
    assert plan.tables == tiling.tables
    assert 2 * len(set(plan.tables)) < len(steps)
    for step, table in sharers(plan.tables).items():
        first, other = steps[table], steps[step]
        assert (first.graph, first.kernel) == (other.graph, other.kernel)
        program, at_first = lower(other, 0, table), lower(first, 0, table)
        assert program.arguments == at_first.arguments
    assert plan.table_bytes == shared_bytes(plan.tables, steps, target) <= ROOM < sum(table_sizes(steps, target))


@pytest.mark.parametrize(("cycles", "shares"), [(0, True), (20, False)])
def test_shared_where_it_costs_next_to_nothing(cycles: int, shares: bool, models_root: Path) -> None:
    """Cycles of an address decide, and whether the tables fit the area of the groups."""
    tiling, runs, _ = grouped(models_root)
    priced = StepRuns(tiling.lifetimes.schedule, replace(runs.target, arg_patch=cycles), tiling.groups)
    assert (with_shared_tables(tiling, priced) is not None) == shares
    small = replace(tiling, table_bytes=shared(models_root)[1].table_bytes - 4)
    assert with_shared_tables(small, priced) is None
    assert with_shared_tables(replace(tiling, groups=()), priced) is None


def test_zeros_of_two_signs_are_two_sizes(models_root: Path) -> None:
    """A table that keeps 0.0 is none for a step whose argument is -0.0 and that has all else in common."""
    tiling, runs, _ = grouped(models_root)
    schedule = tiling.lifetimes.schedule
    alike: dict[object, list[Step]] = {}
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        key = runs.kinds[step.index], repr(step.args), loop_key(choice), loop_key(choice.stage)
        alike.setdefault(key, []).append(step)
    name, one, other = next(
        (name, *steps[:2])
        for steps in alike.values()
        for name, kind in steps[0].kernel.scalars
        if kind == "f32" and isinstance(steps[0].args[name], Const) and len(steps) > 1
    )

    def tables_with(zeros: dict[int, float]) -> tuple[int, ...]:
        steps = list(schedule.steps)
        for at, zero in zeros.items():
            steps[at] = replace(steps[at], args={**steps[at].args, name: Const(zero)})
        lives = replace(tiling.lifetimes, schedule=replace(schedule, steps=tuple(steps)))
        return shared_tables(replace(tiling, lifetimes=lives), runs.kinds)

    for zero in (0.0, -0.0):
        assert tables_with({one.index: zero, other.index: zero})[other.index] == one.index
        assert tables_with({one.index: zero, other.index: -zero})[other.index] == other.index


@pytest.mark.parametrize("slower", [0, 1])
def test_shared_rather_than_resident(slower: int, models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared tables replace resident ones where the update is no cycle longer, though it gain less than groups must."""
    tiling, plan = shared(models_root)
    (groups, runs, grouped_plan), alive = grouped(models_root), tiling.lifetimes
    resident = replace(groups, groups=(), table_bytes=sum(table_sizes(alive.schedule.steps, runs.target)))
    most = sum(alive.schedule.repeats(s) * p.cycles for s, p in zip(alive.schedule.steps, plan.steps, strict=True))
    monkeypatch.setattr(sharing, "hardly_longer", lambda cycles, groups: True)
    monkeypatch.setattr(Tiler, "tile", lambda self, *words: groups)
    monkeypatch.setattr(plan_choice, "_update_cycles", lambda tiling, plan: most - slower)
    tiler = Tiler(alive, ArgumentTables(groups.table_bytes, groups.groups, alternative=True))
    found = plan_choice._plan_tiled(tiler, (resident, grouped_plan), lambda text: None, plan.running, 1)
    assert found == ((resident, grouped_plan) if slower else (tiling, replace(plan, digest="")))  # sealed when taken


def test_artefacts_keep_tables(models_root: Path, tmp_path: Path) -> None:
    """Tiling and plan go to files and back, and the tiling gives the same plan again."""
    tiling, plan = shared(models_root)
    for value in (tiling, plan):
        path = tmp_path / "artefact.json"
        path.write_text(artefact.dumps(value))
        assert artefact.load(type(value), path, sealed=True) == value
    assert pipeline.place_edited(tiling, plan.running) == plan
    assert '"tables"' not in artefact.dumps(grouped(models_root)[2])


def outcome_of(built: Built) -> Outcome:
    """A run under full guards; the simulator's clock is the plan's."""
    pipeline.build_case(built.plan, built.directory)
    outcome = built.run("--dma-order", "random", "--guards", "full")
    check_clock(built, outcome)
    return outcome


def test_clock_and_verdict(models_root: Path, tmp_path: Path) -> None:
    """The program computes what the case expects, in the plan's cycles."""
    built = written(models_root, tmp_path, *shared(models_root))
    assert not faults(built, outcome_of(built))


@pytest.mark.slow
def test_bits(models_root: Path, tmp_path: Path) -> None:
    """The bits are those of groups."""
    hashes = set()
    for name, found in {"groups": grouped(models_root)[::2], "shared": shared(models_root)}.items():
        (tmp_path / name).mkdir()
        hashes.add(result_hash(outcome_of(written(models_root, tmp_path / name, *found))))
    assert len(hashes) == 1


def forget_an_address(text: str) -> str:
    """The steps of a function find an address that the step before them has left in the table."""
    return re.sub(r"    args->\w+ = (\w+_(?:home|slot));\n", r"    (void)\1;\n", text, count=1)


def take_other_sizes(text: str) -> str:
    """A step has the table of steps of its kernel with other sizes."""
    rows = [int(row) for row in re.findall(r"_like\([^&;]*&gemm_f32_args\[(\d+)\]", text)]
    one, other = rows[0], next(row for row in rows if row != rows[0])
    return re.sub(rf"(_like\([^&;]*&gemm_f32_args)\[{one}\]", rf"\1[{other}]", text, count=1)


FAULTS: dict[Callable[[str], str], str] = {
    forget_an_address: r"argument: operand '\w+' of kernel call 0",
    take_other_sizes: r"argument: '\w+' of kernel call 0",
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_is_named(fault: Callable[[str], str], models_root: Path, tmp_path: Path) -> None:
    """An address that a step does not set, and a table that is not the step's, end the run with the argument's name."""
    built = changed(written(models_root, tmp_path, *shared(models_root)), fault)
    with pytest.raises(RunFailed, match=FAULTS[fault]):
        built.run()


def with_table(tables: tuple[int, ...], step: int, table: int) -> tuple[int, ...]:
    """The tables, with another one for a step."""
    return (*tables[:step], table, *tables[step + 1 :])


def of_other_sizes(plan: Plan) -> tuple[int, ...]:
    """The first step that could have the table of an earlier one of its kernel, were it not for the sizes."""
    kinds = [(s.graph, s.kernel, [o.arg for o in s.operands]) for s in plan.steps]
    for step in range(len(plan.tables)):
        for first in sorted(set(plan.tables[:step]) - {plan.tables[step]}):
            if kinds[first] == kinds[step] and step not in plan.tables[step + 1 :]:
                return with_table(plan.tables, step, first)
    raise AssertionError("all steps of a kernel have the same sizes")


def of_a_sharer(plan: Plan) -> tuple[int, ...]:
    """A step has the table of another that has none of its own."""
    other = next(step for step, table in enumerate(plan.tables) if table not in (step, plan.tables[-1]))
    return with_table(plan.tables, len(plan.tables) - 1, other)


def of_another_kernel(plan: Plan) -> tuple[int, ...]:
    """A step has the table of the program's first one, of another kernel."""
    step = next(s.index for s in plan.steps if s.kernel != plan.steps[0].kernel)
    return with_table(plan.tables, step, 0)


WRONG: dict[str, Callable[[Plan], tuple[int, ...]]] = {
    "another kernel": of_another_kernel,
    "a step without a table": of_a_sharer,
    "a later step": lambda p: with_table(p.tables, 0, len(p.tables) - 1),
    "no step": lambda p: with_table(p.tables, len(p.tables) - 1, -1),
    "a step too few": lambda p: p.tables[:-1],
    "no tables": lambda p: (),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_tables_are_refused(fault: str, models_root: Path) -> None:
    """The verifier refuses the plan."""
    tiling, plan = shared(models_root)
    wrong = replace(plan, tables=WRONG[fault](plan))
    refused("table", lambda: check_room(wrong, target_for(tiling.lifetimes.schedule)))


def test_other_sizes_are_refused(models_root: Path) -> None:
    """Steps of one kernel that share a table have the same sizes; the argument is named that has not."""
    tiling, plan = shared(models_root)
    with pytest.raises(VerifyFailed, match=r"\[table\] step \d+ .* has the table of step \d+, in which '\w+' is "):
        check_room(replace(plan, tables=of_other_sizes(plan)), target_for(tiling.lifetimes.schedule))


def test_every_judge_looks_at_tables(models_root: Path) -> None:
    """Tiling and plan are right, and wrong with a step too few, together or alone."""
    tiling, plan = shared(models_root)
    verify_plan_alone(plan)
    tables = plan.tables[:-1]
    for check in (
        lambda: verify_tiling(replace(tiling, tables=tables)),
        lambda: verify_plan(replace(plan, tables=tables), tiling),
        lambda: verify_plan_alone(replace(plan, tables=tables)),
    ):
        refused("table", check)


def test_addresses_without_cycles_are_refused(models_root: Path) -> None:
    """A step that sets addresses cannot take the cycles of its kernels and waits alone."""
    tiling, plan = shared(models_root)
    step = next(plan.steps[i] for i in sharers(plan.tables) if fixed_addresses(plan.steps[i]))
    assert len(own(step)) == fixed_addresses(step)
    refused("cycles", lambda: check_room(kernels_alone(plan, step.name), target_for(tiling.lifetimes.schedule)))
