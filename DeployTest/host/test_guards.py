"""Stray writes of kernels: one element past or before what a call may write, or elsewhere, is named with the step."""

from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen.c_names import MemoryNames
from deployer.core.operator import registry
from deployer.core.plan import Options, Plan, target_of
from DeployTest.host.overflow import UNFIT, Stray, build_with_plant, overflows, program_of, run_with_stray, samples
from DeployTest.support.building.cases import Built, compile_case, load_case
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.kernels]


def named(stray: Stray, guards: str, directory: Path) -> bool:
    """Whether the run ends with the stray write's step, call and place."""
    code, words = run_with_stray(directory, stray, "--guards", guards)
    start = f"hal: step {stray.step.index} '{stray.step.name}': "
    rules = [f"guard: kernel call {stray.call} wrote where it must not"]
    rules += ["forgotten-wait: "] if "other part" in stray.where else []  # the next tile may be on its way to there
    return code == 3 and words.count("\n") == 0 and any(words.startswith(start + rule) for rule in rules)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """A program with one step per kernel, in an L1 that holds some of their tensors."""
    program, values = program_of(samples())
    tiling, plan = pipeline.plan_program(program, Options("host", "auto", {"L1": 6000}))
    directory = tmp_path_factory.mktemp("kernels")
    case = pipeline.Case(directory, program, None, values, {}, "")
    pipeline.write_case(case, tiling, plan, directory)
    build_with_plant(case, plan, directory)
    return plan, directory


@pytest.fixture(scope="module")
def staged(models_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """A training program with two slots per operand, the optimizer, and tensors in L3."""
    case = pipeline.load_training(load_case("autoencoder", models_root).directory, n_accum=2)
    built: Built = compile_case(case, tmp_path_factory.mktemp("staged"), "double", 8000, l2=60000, outermost="L3")
    build_with_plant(case, built.plan, built.directory)
    return built.plan, built.directory


@pytest.mark.slow
def test_sound_programs_pass(kernels: tuple[Plan, Path], staged: tuple[Plan, Path]) -> None:
    """Without a stray write, under every setting."""
    for _, directory in (kernels, staged):
        for guards in ("off", "fast", "full"):
            assert run_with_stray(directory, None, "--guards", guards) == (0, "")


@pytest.mark.parametrize("guards", ["fast", pytest.param("full", marks=pytest.mark.slow)])
def test_every_kernel(guards: str, kernels: tuple[Plan, Path]) -> None:
    """Past and before every operand that any kernel writes, in a slot or at home."""
    plan, directory = kernels
    symbols = {op.kernel.symbol for op in registry().values() if op.kernel is not None}
    assert {step.kernel.symbol for step in plan.steps} == symbols - set(UNFIT)
    strays = list(overflows(plan))
    assert {s.step.index for s in strays} == set(range(len(plan.steps)))
    assert [s.where for s in strays if not named(s, guards, directory)] == []


@pytest.mark.parametrize("guards", ["fast", "full"])
def test_training(guards: str, staged: tuple[Plan, Path]) -> None:
    """Into the other part of an operand's own slot too."""
    plan, directory = staged
    strays = list(overflows(plan))
    kinds = {s.where.split("'")[0] for s in strays}
    assert kinds == {"before ", "past ", "the other part of "}
    assert {"accumulate_f32", "sgd_f32"} <= {s.step.kernel.symbol for s in strays}
    assert [s.where for s in strays if not named(s, guards, directory)] == []


def outer_strays(plan: Plan) -> list[Stray]:
    """Into levels that no kernel works on: homes the step does not touch, live and dead, stage slots, guard bytes."""
    memory = MemoryNames(plan, target_of(plan.options))
    level = {use.name: i for i, use in enumerate(plan.levels)}
    strays = []
    for step in plan.steps[:: max(1, len(plan.steps) // 6)]:
        touched = {o.storage for o in step.operands}
        for home in plan.homes:
            if level[home.level] and home.storage not in touched:
                alive = home.persistent or home.first <= step.index <= home.last
                address = memory.address(home.level, home.offset) + home.bytes - 4
                kind = "live" if alive else "dead"
                strays.append(Stray(step, 0, level[home.level], address, f"{kind} {home.level}"))
        for o in step.operands:
            if o.stage_slots:
                end = memory.address(plan.levels[1].name, o.stage_offset) + o.stage_slots * o.stage_bytes
                strays.append(Stray(step, 0, 1, end, "guard"))
    return [next(s for s in strays if s.where == kind) for kind in sorted({s.where for s in strays})]


@pytest.mark.parametrize("guards", ["fast", "full"])
def test_outer_levels(guards: str, staged: tuple[Plan, Path]) -> None:
    """Named at the end of the step at the latest, with the step; at once under full."""
    plan, directory = staged
    strays = outer_strays(plan)
    assert {s.where for s in strays} >= {"dead L2", "guard", "live L2", "live L3"}
    for stray in strays:
        code, words = run_with_stray(directory, stray, "--guards", guards)
        assert code == 3, stray
        assert words.startswith(f"hal: step {stray.step.index} '{stray.step.name}': guard: kernel call "), words
        assert guards == "fast" or words.startswith(words.split("guard: ")[0] + "guard: kernel call 0 "), words


@pytest.mark.parametrize("guards", ["fast", "full"])
def test_what_comes_in_later(guards: str, staged: tuple[Plan, Path]) -> None:
    """A byte of a home that the step brings in after the stray write, uses, and overwrites."""
    plan, directory = staged
    memory = MemoryNames(plan, target_of(plan.options))
    level = {use.name: i for i, use in enumerate(plan.levels)}
    step, o = next(
        (s, o) for s in plan.steps for o in s.operands if s.op == "SGD" and o.mode == "inout" and s.tiles > 3
    )
    home = plan.home(o.storage)
    stray = Stray(step, 0, level[home.level], memory.address(home.level, home.offset) + home.bytes - 4, "the last tile")
    code, words = run_with_stray(directory, stray, "--guards", guards)
    assert code == 3
    assert words.startswith(f"hal: step {step.index} '{step.name}': guard: kernel call "), words


def test_full_sees_what_a_transfer_covers_up(staged: tuple[Plan, Path]) -> None:
    """A byte of an outer level that the step itself overwrites later: no result depends on it, and only full knows."""
    plan, directory = staged
    memory = MemoryNames(plan, target_of(plan.options))
    step, o = next(
        (s, o)
        for s in plan.steps
        for o in s.operands
        if o.mode == "out" and o.slots and not o.stage_slots and s.tiles > 1
    )
    home = plan.home(o.storage)
    stray = Stray(step, 0, 1, memory.address(home.level, home.offset) + home.bytes - 4, "to be overwritten")
    assert run_with_stray(directory, stray, "--guards", "fast") == (0, "")
    assert named(stray, "full", directory)


def test_off_sees_nothing(kernels: tuple[Plan, Path]) -> None:
    """It compares nothing: a stray write into dead bytes changes no result and is silent."""
    plan, directory = kernels
    stray = next(overflows(plan))
    assert run_with_stray(directory, replace(stray, address=stray.address), "--guards", "off")[0] == 0


@pytest.mark.parametrize("target", ["qemu_riscv", "siracusa"])
def test_targets_without(target: str, models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only simulated memories are compared; the others refuse the flag before anything is built."""
    folder = load_case("simple_mlp", models_root).directory
    assert deployer("train", "-t", folder, "-o", tmp_path / "c", "-p", target, "--guards", "full") == 2
    assert f"target '{target}' takes no --guards" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_flag_reaches_the_simulator(models_root: Path, tmp_path: Path) -> None:
    """A right run passes under each."""
    folder = load_case("simple_mlp", models_root).directory
    for guards in ("off", "fast", "full"):
        assert deployer("train", "-t", folder, "-o", tmp_path / "c", "--l1", 2000, "--guards", guards) == 0
