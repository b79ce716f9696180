"""Training on the RISC-V targets: to the bit what the host computes, in every tiling, buffering and DMA order."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.errors import PlacementInfeasible
from DeployTest.support.building.cases import (
    STRATEGY,
    Entry,
    case_dir,
    compile_case,
    load_case,
    registry,
    result_hash,
    worst_difference,
)
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.documents.summary import record
from DeployTest.support.tolerances import table
from DeployTest.targets.simulators import TARGETS, needs_compiler, needs_simulator

pytestmark = pytest.mark.training
TOLERANCE = table()["training"]["weight"]
ORDERS = (("early", 0), ("late", 0), ("random", 1), ("random", 2))
PROGRAM_BYTES = 128 * 1024
WITH_PROGRAM = 1_800_000
"""Bytes of L2 that leave room for the largest program beside them."""
CODE_ORIGIN = {"qemu_riscv": 0x80000000, "siracusa": 0x1C010000}
TO_SET = {"qemu_riscv": "apt-get install qemu-system-misc", "siracusa": "set GVSOC_INSTALL_DIR"}
_on_host: dict[str, str] = {}


def quick(entry: Entry) -> bool:
    """The largest and the smallest L1 in auto, the smallest double-buffered, of models that are quick throughout."""
    if any(e.slow for e in registry() if e.test == entry.test):
        return False
    sizes = [e.l1 for e in registry() if (e.test, e.level, e.mode) == (entry.test, entry.level, entry.mode)]
    if entry.mode == "auto":
        return entry.l1 in (min(sizes), max(sizes))
    return entry.mode == "doublebuffer" and entry.l1 == min(sizes)


def worth_a_target(entry: Entry, target: str) -> bool:
    """Of slow models auto in the largest and the smallest L1: the host has run all their rows. Some models have all."""
    if target in entry.machines:
        return True
    sizes = [e.l1 for e in registry() if (e.test, e.level, e.mode) == (entry.test, entry.level, entry.mode)]
    return not entry.slow or (entry.mode == "auto" and entry.l1 in (min(sizes), max(sizes)))


def parameters() -> list[object]:
    """The registry on each target; what is not quick is slow."""
    cases = []
    for target in ("qemu_riscv", "siracusa"):
        for entry in (row for row in registry() if worth_a_target(row, target)):
            marks = [getattr(pytest.mark, x) for x in (target, entry.level.lower(), entry.mode)]
            marks += [] if quick(entry) else [pytest.mark.slow]
            cases.append(pytest.param(target, entry, id=f"{target}-{entry.label}", marks=marks))
    return cases


def host_hash(entry: Entry, root: Path, directory: Path) -> str:
    """Hash of the test's results on the host; test_training says that no plan changes it."""
    if entry.test not in _on_host:
        built = compile_case(load_case(entry.test, root), directory / "host", "single", 240000, outermost="L3")
        _on_host[entry.test] = result_hash(built.run())
    return _on_host[entry.test]


@pytest.mark.parametrize(("target", "entry"), parameters())
def test_same_bits(target: str, entry: Entry, models_root: Path, tmp_path: Path, record_property) -> None:
    """Every loss and final weight, in every order that the target's transfers can take."""
    needs_simulator(target)
    case = load_case(entry.test, models_root)
    expected = host_hash(entry, models_root, tmp_path)
    memory = entry.memory
    if target == "siracusa" and entry.l2:
        memory["l2"] = min(entry.l2, WITH_PROGRAM)
    built = compile_case(case, tmp_path / "c", STRATEGY[entry.mode], entry.l1, target=target, **memory)
    for order, seed in (ORDERS[-1:] if entry.slow else ORDERS) if target == "qemu_riscv" else [("", 0)]:
        outcome = built.run(*(("--dma-order", order, "--seed", str(seed)) if order else ()))
        assert result_hash(outcome) == expected, f"{order} {seed}"
        assert worst_difference(case, outcome) <= TOLERANCE
        assert outcome.errors == 0
        assert outcome.bench["clock"] == targets.load(target).clock
        assert int(outcome.bench["train_cycles"]) > 0
        assert int(outcome.bench["l1_bytes"]) <= entry.l1
    record(record_property, entry, outcome.bench)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("test", "l1"), [("simple_mlp", 64000), ("deep_autoencoder", 16000)])
def test_fits(target: str, test: str, l1: int, models_root: Path, tmp_path: Path) -> None:
    """Code, constants and data of a program fit the part of L2 that plans leave them."""
    needs_compiler(target)
    built = compile_case(load_case(test, models_root), tmp_path, "double", l1, target=target)
    symbols = subprocess.run(
        ["riscv64-unknown-elf-nm", built.directory / "network"], capture_output=True, text=True, check=True
    ).stdout
    end = int(re.search(r"^([0-9a-f]+) . bss_end$", symbols, re.MULTILINE)[1], 16)
    assert 0 < end - CODE_ORIGIN[target] <= PROGRAM_BYTES


def test_program_beside_the_plan(models_root: Path, tmp_path: Path) -> None:
    """The error of a plan that leaves too little of L2 for the program proposes a budget, and that budget works."""
    needs_compiler("siracusa")
    case = load_case("autoencoder", models_root)
    built = compile_case(case, tmp_path, "single", 32000, target="siracusa")
    level = targets.load("siracusa").levels[1]
    full = replace(built.plan, levels=(built.plan.levels[0], replace(built.plan.levels[1], peak=level.bytes)))
    with pytest.raises(PlacementInfeasible) as caught:
        pipeline.build_case(full, tmp_path)
    enough = int(re.search(r"--l2 (\d+)", caught.value.hint)[1])
    assert int(dict(caught.value.facts)["program"].split()[0]) + enough == level.bytes
    for peak, fits in ((enough, True), (enough + 64, False)):
        plan = replace(full, levels=(full.levels[0], replace(full.levels[1], peak=peak)))
        if fits:
            pipeline.build_case(plan, tmp_path)
        else:
            with pytest.raises(PlacementInfeasible):
                pipeline.build_case(plan, tmp_path)


# ---- tools that are not installed ----


def arguments(target: str, root: Path, tmp_path: Path) -> tuple[object, ...]:
    """The command that trains the smallest model on a target."""
    return ("train", "-t", case_dir("simple_mlp", root), "-p", target, "--l1", 64000, "-o", tmp_path / "out")


def without_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No simulator on PATH or elsewhere; the compiler stays."""
    monkeypatch.setenv("RISCV_GCC", str(shutil.which("riscv64-unknown-elf-gcc")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GVSOC_INSTALL_DIR", raising=False)


@pytest.mark.parametrize("target", TARGETS)
def test_skipsim_builds(target: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the simulator the program can still be built."""
    needs_compiler(target)
    without_tools(monkeypatch, tmp_path)
    assert deployer(*arguments(target, models_root, tmp_path), "--skipsim") == 0
    assert (tmp_path / "out" / "network").read_bytes().startswith(b"\x7fELF\x01\x01")


@pytest.mark.parametrize("target", TARGETS)
def test_no_simulator(
    target: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the simulator a run is refused, and the message says what to install or set."""
    needs_compiler(target)
    without_tools(monkeypatch, tmp_path)
    message = refused(capsys, *arguments(target, models_root, tmp_path))
    assert "is not installed" in message
    assert TO_SET[target] in message
    assert "--skipsim" in message


@pytest.mark.siracusa
def test_wrong_install_dir(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that points to where GVSoC is not counts as no GVSoC."""
    needs_compiler("siracusa")
    monkeypatch.setenv("GVSOC_INSTALL_DIR", str(tmp_path))
    assert "set GVSOC_INSTALL_DIR" in refused(capsys, *arguments("siracusa", models_root, tmp_path))


@pytest.mark.parametrize("target", TARGETS)
def test_no_compiler(
    target: str, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the compiler nothing is built, and the message names the variable that chooses another."""
    monkeypatch.setenv("RISCV_GCC", "gcc-that-is-nowhere")
    message = refused(capsys, *arguments(target, models_root, tmp_path), "--skipsim")
    assert "gcc-that-is-nowhere" in message
    assert "RISCV_GCC" in message


@pytest.mark.siracusa
def test_no_order_under_gvsoc(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of simulated transfers are refused where the transfers are a machine's."""
    needs_compiler("siracusa")
    message = refused(capsys, *arguments("siracusa", models_root, tmp_path), "--dma-order", "early")
    assert "--dma-order" in message
