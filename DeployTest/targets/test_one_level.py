"""One flat memory: tensors are used where they lie, each step is one kernel call, the bits are those of all targets."""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.errors import PlacementInfeasible, VerifyFailed
from deployer.core.level import Slots
from deployer.core.limits import PROGRAM_BYTES
from deployer.core.plan import Options
from deployer.running import build, run
from deployer.running.build import COMMON, source_folders
from deployer.verify.plan import verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from deployer.verify.tiling import verify_tiling
from DeployTest.support.building.cases import Built, case_dir, faults, load_case, result_hash
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.building.other_levels import BARE, add_targets

pytestmark = [pytest.mark.host, pytest.mark.training]
NATIVE = "host_flat"
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("resnet8", "dscnn", "transformer")]


@pytest.fixture(scope="module", autouse=True)
def other_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The simulated machine with one memory as well."""
    with pytest.MonkeyPatch.context() as patch:
        add_targets(tmp_path_factory.mktemp("targets"), patch)
        yield


def built(test: str, target: str, root: Path, folder: Path, sanitize: bool = False) -> Built:
    """A test's case, planned and built for a target under its own budgets."""
    case = load_case(test, root)
    tiling, plan = pipeline.plan_case(case, Options(target))
    pipeline.write_case(case, tiling, plan, folder)
    pipeline.build_case(plan, folder, sanitize)
    return Built(case, tiling, plan, folder)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("test", ["simple_mlp", "autoencoder", *SLOW])
def test_same_bits(test: str, models_root: Path, tmp_path: Path) -> None:
    """Losses and weights have the bits of three levels, on the machine itself and on the one that is watched."""
    expected = built(test, "host", models_root, tmp_path / "host").run()
    watched = built(test, BARE, models_root, tmp_path / BARE)
    native = built(test, NATIVE, models_root, tmp_path / NATIVE)
    assert result_hash(watched.run("--guards", "full")) == result_hash(expected)
    outcome = native.run()
    assert result_hash(outcome) == result_hash(expected)
    assert not faults(native, outcome)
    for one in (watched, native):
        steps, [use] = one.plan.steps, one.plan.levels
        assert all(step.tiles == 1 and not any(o.slots or o.stage_slots for o in step.operands) for step in steps)
        assert {home.level for home in one.plan.homes} == {use.name}
        texts = [path.read_text() for path in one.directory.glob("*Network.c")]
        assert texts
        assert not any("hal_dma" in text for text in texts)


@pytest.mark.slow
def test_sanitized(models_root: Path, tmp_path: Path) -> None:
    """The program is sound under the sanitizers."""
    assert built("simple_mlp", NATIVE, models_root, tmp_path, sanitize=True).run().losses


def test_shown(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report and the memory map know the level, with every tensor in it."""
    words = ["train", "-t", case_dir("simple_mlp", models_root), "-p", NATIVE, "-o", tmp_path, "-v", "--plotMemAlloc"]
    assert deployer(*words, "--budget", "RAM=8k", "--profileTiling") == 0
    said, page = capsys.readouterr().out, (tmp_path / "memory.html").read_text()
    assert re.search(r"^RAM: peak (\d+) B of 8000 B, lower bound \1 B, gap 0 B$", said, re.MULTILINE)
    assert re.search(r"ram_bytes=\d+ clock=ns$", said, re.MULTILINE)
    assert re.findall("<h2>(.*?)</h2>", page) == ["RAM"]
    for name in ("fc1_weight", "fc1_out", "input", "argument tables"):
        assert f"<title>{name}: " in page


REFUSED = {
    "slots": (["--doublebuffer"], "double buffering has no effect on target 'host_flat'"),
    "slots between": (["--buffering", "double_l3"], "double_l3 buffering has no effect"),
    "second level": (["--l2", "64k"], "--l2 limits no level of target 'host_flat'"),
    "level of others": (["--budget", "L2=64k"], "has no level 'L2'"),
    "outermost": (["--defaultMemLevel", "L3"], "--defaultMemLevel RAM"),
    "transfers": (["--dma-order", "late"], "takes no --dma-order"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that makes no sense with one memory is refused by its name."""
    words, text = REFUSED[name]
    case = case_dir("simple_mlp", models_root)
    assert text in refused(capsys, "train", "-t", case, "-p", NATIVE, "-o", tmp_path / "o", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["--singlebuffer"],
        ["--l1", "1M"],
        ["--budget", "RAM=1M", "--defaultMemLevel", "RAM"],
        ["--buffering", "training_double", *(x for name in ("Gemm", "SGD") for x in ("--opt-out", name))],
    ],
    ids=" ".join,
)
def test_accepted(words: list[str], models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of several memories work with one memory, unless a step needs two slots."""
    case = case_dir("simple_mlp", models_root)
    words = ["compile", "-t", str(case), "-p", NATIVE, "-o", str(tmp_path), *words]
    if "--opt-out" not in words:
        assert deployer(*words) == 0
        return
    assert "'SoftmaxCrossEntropyLoss_log_softmax+" in refused(capsys, *words)
    rest = ("SoftmaxCrossEntropy",)
    assert deployer(*words, *(x for name in rest for x in ("--opt-out", name))) == 0


def test_too_small(models_root: Path) -> None:
    """A plan that does not fit names the bytes that it needs: with them it fits, with fewer it does not."""
    case = load_case("autoencoder", models_root)
    with pytest.raises(PlacementInfeasible) as caught:
        pipeline.plan_case(case, Options(NATIVE, budgets={"RAM": 1000}))
    assert "the tensors do not fit RAM" in caught.value.cause
    [size] = map(int, re.findall(r"--budget RAM=(\d+)", caught.value.hint))
    [use] = pipeline.plan_case(case, Options(NATIVE, budgets={"RAM": size}))[1].levels
    assert use.peak == size
    with pytest.raises(PlacementInfeasible):
        pipeline.plan_case(case, Options(NATIVE, budgets={"RAM": size - 4}))


def test_verified(models_root: Path) -> None:
    """A tile, a slot or a level too many is a fault of the tiling or of the plan. Homes are listed by their names."""
    case = load_case("simple_mlp", models_root)
    tiling, plan = pipeline.plan_case(case, Options(NATIVE))
    assert tiling.resident == tuple(sorted({life.storage for life in tiling.lifetimes.storages}))
    verify_plan(plan, tiling)
    verify_plan_alone(plan)
    first, *rest = tiling.steps
    for wrong in (
        replace(first, slots={arg: 1 for arg in first.slots}),
        replace(first, tile={name: 1 for name in first.tile}),
    ):
        with pytest.raises(VerifyFailed):
            verify_tiling(replace(tiling, steps=(wrong, *rest)))
    with pytest.raises(VerifyFailed, match="not resident"):
        verify_tiling(replace(tiling, resident=tiling.resident[1:]))
    operand = plan.steps[0].operands[0]
    slotted = operand.at((Slots(1, 256, 0), Slots()))
    step = replace(plan.steps[0], operands=(slotted, *plan.steps[0].operands[1:]))
    for fault in (
        replace(plan, levels=(*plan.levels, plan.levels[0])),
        replace(plan, levels=()),
        replace(plan, steps=(step, *plan.steps[1:])),
    ):
        with pytest.raises(VerifyFailed):
            verify_plan(fault, tiling)
        with pytest.raises(VerifyFailed):
            verify_plan_alone(fault)


def test_whole_sums(models_root: Path) -> None:
    """A plan that cuts the sum of a kernel which takes whole ones is refused for that, by kernel, dim and target."""
    tiling, plan = pipeline.plan_case(load_case("autoencoder", models_root), Options(NATIVE))
    number = next(i for i, s in enumerate(plan.steps) if any(d.reduction and d.size == 128 for d in s.dims))
    step, choice = plan.steps[number], tiling.steps[number]
    name = next(d.name for d in step.dims if d.reduction)
    half = tuple(replace(d, tile=d.size // 2) if d.name == name else d for d in step.dims)
    cut = replace(step, dims=half, tile_cycles=step.tile_cycles * 2)
    text = f"{step.kernel.symbol} of target '{NATIVE}' takes whole sums, and {name} has tiles of 64 of 128"
    with pytest.raises(VerifyFailed, match=re.escape(text)):
        verify_plan_alone(replace(plan, steps=(*plan.steps[:number], cut, *plan.steps[number + 1 :])))
    cut_choice = replace(choice, tile={**choice.tile, name: 64})
    with pytest.raises(VerifyFailed, match=re.escape(text)):
        verify_tiling(replace(tiling, steps=(*tiling.steps[:number], cut_choice, *tiling.steps[number + 1 :])))


def test_not_calibrated(capsys: pytest.CaptureFixture[str]) -> None:
    """No plan depends on costs, and `calibrate` says so."""
    assert "one level" in refused(capsys, "calibrate", "-p", NATIVE)


def test_memory_is_the_plans() -> None:
    """The linker is told the plan's bytes, and the level is larger than any graph that is read."""
    target = targets.load(NATIVE)
    [level] = target.levels
    words = build.link_words(build.toolchain(target), "gcc", target, {level.name: 12345})
    assert "-Wl,--defsym=plan_ram_bytes=12345" in words
    assert level.budget == level.bytes > PROGRAM_BYTES


@pytest.mark.slow
def test_memory_beyond_a_microcontroller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tensors of 25 MB, which no target for microcontrollers holds, train on this machine without an option."""
    w = np.ones((1024, 1024), np.float32) / 1024
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
    tensors = [numpy_helper.from_array(w * scale, name) for name, scale in (("w", 1), ("v", 2))]
    shape = helper.make_tensor_value_info
    values = [shape(name, 1, [2, 1024]) for name in ("x", "y")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", values[:1], values[1:], tensors)), tmp_path / "m.onnx")
    assert (
        deployer(
            "train-graph", tmp_path / "m.onnx", "--loss", "mse", "--optimizer", "adam", "-o", tmp_path, "--n-steps", 1
        )
        == 0
    )
    assert deployer("train", "-t", tmp_path, "-p", NATIVE, "-o", tmp_path / "c") == 0
    [peak] = re.findall(r"RAM: peak (\d+) B of", capsys.readouterr().out)
    assert int(peak) > 25_000_000


def test_memory_ends(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that the machine has no memory for is ended by it before its first line; the error says the bytes."""
    case = case_dir("simple_mlp", models_root)
    assert deployer("train", "-t", case, "-p", NATIVE, "-o", tmp_path) == 0
    full = run.supervised

    def limited(command: list[str], *more: Any) -> tuple[int, str, str]:
        """The command in no more address space than its own code takes."""
        return full(["sh", "-c", 'ulimit -v 64; exec "$@"', "sh", *command], *more)

    def none(*_: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "supervised", limited)
        patched.setattr(run.mmap, "mmap", none)
        message = refused(capsys, "train", "-t", case, "-p", NATIVE, "-o", tmp_path)
    [level] = targets.load(NATIVE).levels
    assert re.search(rf"ToolFailed: .*: the machine has no memory for it\n  {level.name} +\d+ B", message)


PROGRAM = """#include "hal.h"
const uint32_t hal_plan_cores = 1;
extern uint8_t hal_memory_ram[];
int main(int argc, char **argv) {{
    hal_init(argc, argv);
    {body}
    hal_exit(0);
}}
"""
ENDS = {
    "hal_dma_wait(hal_dma_in_1d(0, hal_memory_ram, hal_memory_ram + 64, 4));": ([], 3, "step 4: a transfer over hop 0"),
    "hal_dma_out_2d(1, hal_memory_ram, hal_memory_ram + 64, 4, 2, 8);": ([], 3, "a transfer over hop 1"),
    "hal_dma_wait(HAL_DONE);": ([], 0, ""),
    "hal_read(hal_memory_ram, 4);": ([], 2, "there is no --input"),
    "hal_read(hal_memory_ram, 40000000);": (["--input", __file__], 2, "the input ends"),
    "hal_write(hal_memory_ram, 4);": ([], 2, "there is no --output"),
    "(void)0;": (["--trace", "1"], 2, "unknown flag '--trace'"),
    "(void)1;": (["--input", "/nowhere/x"], 2, "--input /nowhere/x cannot be opened"),
    "(void)2;": (["--output"], 2, "--output without a file cannot be opened"),
}


@pytest.mark.parametrize("body", ENDS)
def test_hal(body: str, tmp_path: Path) -> None:
    """The HAL ends a run that asks for a transfer, or for files that are not there, and says why."""
    words, code, text = ENDS[body]
    target = targets.load(NATIVE)
    tools = build.toolchain(target)
    (tmp_path / "main.c").write_text(PROGRAM.format(body=f"hal_step(4); {body}"))
    folders = (COMMON / "include", *source_folders(tools))
    sources = [tmp_path / "main.c", *(path for folder in folders for path in folder.glob("*.c"))]
    includes = [f"-I{folder}" for folder in folders]
    command = [*build.compiler(tools), *build.flags_of(tools), *includes, *map(str, sources)]
    command += build.link_words(tools, command[0], target, {"RAM": 40_000_000})
    subprocess.run([*command, "-o", str(tmp_path / "p")], check=True, timeout=60)
    run = subprocess.run([str(tmp_path / "p"), *words], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == code, run.stderr
    assert text in run.stderr
