"""Faults of the optimizer in generated C: each fails the verdict of the command, however little the case trains."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from DeployTest.support.building.cases import SHARED, case_dir, needs_shared
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
CASES = ("shared/Autoencoder", "autoencoder")


@pytest.fixture(scope="module", params=CASES)
def compiled(
    request: pytest.FixtureRequest, models_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A case and the folder its C lies in."""
    if request.param.startswith("shared/"):
        needs_shared(SHARED)
    case, folder = case_dir(request.param, models_root), tmp_path_factory.mktemp("verdict") / "c"
    assert deployer("train", "-t", case, "-o", folder, "--singlebuffer", "--l1", "120000") == 0
    return case, folder


CALL = re.compile(r"^    (?:step_|RUN_)\w+\([^;]*\);\n", re.MULTILINE)
"""A step of the optimizer."""


def run_edited(compiled: tuple[Path, Path], folder: Path, edits: dict[str, dict[str, str]]) -> int:
    """Exit code of a run of the program after replacing texts in some files; each text must occur."""
    case, original = compiled
    shutil.copytree(original, folder)
    for file, replaced in edits.items():
        text = (folder / file).read_text()
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        (folder / file).write_text(text)
    return deployer("train", "-t", case, "-o", folder, "--skipgen")


def with_rate(compiled: tuple[Path, Path], factor: float) -> dict[str, dict[str, str]]:
    """The edits that raise the learning rate, in the simulator's map as well, so that only the verdict can notice."""
    match = re.search(r"(\.lr = |_LR )(\S+)f\b", (compiled[1] / "OptimizerNetwork.c").read_text())
    assert match
    rate = np.float32(float.fromhex(match[2]) if match[2].startswith("0x") else float(match[2]))
    faster = np.float32(factor) * rate
    before, after = (f"lr), HAL_SIM_CONST, 0, 0, {int(value.view(np.uint32)):#x}" for value in (rate, faster))
    program = {match[0]: f"{match[1]}{float(faster).hex()}f"}
    return {"OptimizerNetwork.c": program, "SimulationMap.c": {before: after}}


@pytest.mark.matrix(keep=1)
def test_untouched(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """The program itself passes."""
    assert run_edited(compiled, tmp_path / "c", {}) == 0


def test_rate(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """A rate 5 % too large."""
    assert run_edited(compiled, tmp_path / "c", with_rate(compiled, 1.05)) == 1


def test_rate_of_the_program_alone(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """The simulator knows the plan's rate, and ends the run."""
    edits = with_rate(compiled, 1.05)
    assert run_edited(compiled, tmp_path / "c", {"OptimizerNetwork.c": edits["OptimizerNetwork.c"]}) == 70


@pytest.mark.matrix(keep=1)
def test_step_left_out(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """Every third in turn, of those that never move a weight by the tolerance too: by the simulator."""
    text = (compiled[1] / "OptimizerNetwork.c").read_text()
    calls = CALL.findall(text)
    launched_together = sum(int(n) - 1 for n in re.findall(r"hal_parallel_steps\(.*, (\d+)\);", text))
    assert len(calls) + launched_together == 14, "a step or a bundle of them is one call"
    for at, call in enumerate(calls[::3]):
        assert run_edited(compiled, tmp_path / f"{at}", {"OptimizerNetwork.c": {call: ""}}) == 70, call


def test_update_left_out(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """One of four: by the simulator."""
    update = {"if (pass % ACCUMULATE == ACCUMULATE - 1) {": "if (pass != 1) {"}
    assert run_edited(compiled, tmp_path / "c", {"Harness.c": update}) == 70


def test_what_is_said(compiled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the tensor, how far it went and should have, and what is allowed."""
    assert run_edited(compiled, tmp_path / "c", with_rate(compiled, 0.75)) == 1
    stdout = capsys.readouterr().out
    assert re.search(r"^FAULT \w+ moved \S+ of \S+, \d\d % off, \S+ % allowed$", stdout, re.MULTILINE)
    assert re.search(r"^update norms: 14, worst \S+ of \S+, \S+ % off, \S+ % allowed \(\w+\)$", stdout, re.MULTILINE)


def test_report(compiled: tuple[Path, Path]) -> None:
    """report.json has each tensor's movement, what was expected of it, and the error as a share of that."""
    document = json.loads((compiled[1] / "report.json").read_text())
    assert len(document["movements"]) == 14
    for row in document["movements"]:
        assert row["expected"] > 0
        assert row["relative_error"] == row["error"] / row["expected"]
        assert row["error"] <= row["allowed"]
        assert abs(row["moved"] - row["expected"]) <= row["error"]
