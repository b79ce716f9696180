"""Faults of the optimizer in generated C: each fails the verdict of the command, however little the case trains."""

import json
import re
import shutil
from pathlib import Path

import pytest
from cases import SHARED, case_dir, needs_shared
from command_line import deployer

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


CALL = re.compile(r"^    step_\w+\([^;]*\);\n", re.MULTILINE)
"""A step of the optimizer."""


def run_edited(compiled: tuple[Path, Path], folder: Path, file: str, edit: dict[str, str]) -> int:
    """Exit code of a run of the program with texts of one file replaced, each of which must be there."""
    case, made = compiled
    shutil.copytree(made, folder)
    text = (folder / file).read_text()
    for old, new in edit.items():
        assert old in text
        text = text.replace(old, new)
    (folder / file).write_text(text)
    return deployer("train", "-t", case, "-o", folder, "--skipgen")


def test_untouched(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """The program itself passes."""
    assert run_edited(compiled, tmp_path / "c", "OptimizerNetwork.c", {}) == 0


def test_rate(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """A rate 5 % too large."""
    found = re.search(r"\.lr = (\S+f)", (compiled[1] / "OptimizerNetwork.c").read_text())
    assert found
    faster = f"(1.05f * {found[1]})"
    assert run_edited(compiled, tmp_path / "c", "OptimizerNetwork.c", {found[0]: f".lr = {faster}"}) == 1


def test_step_left_out(compiled: tuple[Path, Path], tmp_path: Path) -> None:
    """Each in turn, of those that never move a weight by the tolerance too: by the simulator or by the verdict."""
    calls = CALL.findall((compiled[1] / "OptimizerNetwork.c").read_text())
    assert len(calls) == 14
    for at, call in enumerate(calls[::3]):
        assert run_edited(compiled, tmp_path / f"{at}", "OptimizerNetwork.c", {call: ""}) in (1, 70), call


def test_update_left_out(compiled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of four; what is said names the tensor, how far it went and should have, and what is allowed."""
    update = {"if (pass % ACCUMULATE == ACCUMULATE - 1) {": "if (pass != 1) {"}
    assert run_edited(compiled, tmp_path / "c", "Harness.c", update) == 1
    said = capsys.readouterr().out
    assert re.search(r"^FAULT \w+ moved \S+ of \S+, \d\d % off, \S+ % allowed$", said, re.MULTILINE)
    assert re.search(r"^movements: 14, worst \S+ of \S+, \S+ % off, \S+ % allowed \(\w+\)$", said, re.MULTILINE)


def test_report(compiled: tuple[Path, Path]) -> None:
    """report.json has each tensor's movement, what was expected of it, and the error as a share of that."""
    found = json.loads((compiled[1] / "report.json").read_text())
    assert len(found["movements"]) == 14
    for row in found["movements"]:
        assert row["expected"] > 0
        assert row["relative_error"] == row["error"] / row["expected"]
        assert row["error"] <= row["allowed"]
        assert abs(row["moved"] - row["expected"]) <= row["error"]
