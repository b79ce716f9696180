"""Levels on the command line: any level of a target by its name, the first two by their place, and no other."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.building.json_edits import resealed
from DeployTest.support.building.other_levels import DEEP, FLAT, NAMED, add_targets

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module", autouse=True)
def other_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Targets with levels TCDM, SRAM and PSRAM, with Inner and Outer, and with four of them."""
    with pytest.MonkeyPatch.context() as patch:
        add_targets(tmp_path_factory.mktemp("targets"), patch)
        yield


@pytest.fixture(scope="module")
def artefacts(models_root: Path, tmp_path_factory: pytest.TempPathFactory, other_targets: None) -> Path:
    """A folder that was compiled for the first of them."""
    folder = tmp_path_factory.mktemp("made") / "c"
    flags = ["-p", NAMED, "--l1", 3000, "--l2", 9000]
    assert deployer("compile", "-t", case_dir("simple_mlp", models_root), "-o", folder, *flags) == 0
    return folder


@pytest.fixture
def words(models_root: Path, tmp_path: Path) -> list[object]:
    """A request to compile a small case."""
    return ["compile", "-t", case_dir("simple_mlp", models_root), "-o", tmp_path / "c"]


def body(folder: Path, name: str = "plan.json") -> Any:
    """An artefact that was written."""
    return json.loads((folder / name).read_text())["body"]


LIMITS = {
    "aliases": (NAMED, ["--l1", "3000", "--l2", "9000"], {"TCDM": 3000, "SRAM": 9000}),
    "names": (NAMED, ["--budget", "TCDM=3000", "--budget", "PSRAM=1M"], {"TCDM": 3000, "PSRAM": 1_000_000}),
    "both": (NAMED, ["--l1", "3000", "--budget", "SRAM=20Ki"], {"TCDM": 3000, "SRAM": 20 * 1024}),
    "the same twice": (NAMED, ["--l1", "3k", "--budget", "TCDM=3000"], {"TCDM": 3000}),
    "two levels": (FLAT, ["--l1", "3000B", "--l2", "1MiB"], {"Inner": 3000, "Outer": 1 << 20}),
    "the host's third": ("host", ["--l1", "2k", "--budget", "L3=64KiB"], {"L1": 2000, "L3": 65536}),
}


@pytest.mark.parametrize("limits", LIMITS)
def test_budgets(limits: str, words: list[object], tmp_path: Path) -> None:
    """A plan respects the budget of each level, whatever the level's name."""
    target, flags, budgets = LIMITS[limits]
    assert deployer(*words, "-p", target, *flags) == 0
    plan = body(tmp_path / "c")
    assert plan["options"]["budgets"] == budgets
    for level in plan["levels"]:
        assert level["budget"] == budgets.get(level["name"], level["budget"])
        assert 0 < level["peak"] <= level["budget"]


def test_tensors_in_any_level(words: list[object], tmp_path: Path) -> None:
    """By default tensors lie in the two inner levels, whatever their names; in outer levels if an option says so."""
    for target, flags, outermost, used in (
        (FLAT, [], "Outer", ["Inner", "Outer"]),
        (NAMED, [], "SRAM", ["TCDM", "SRAM"]),
        (NAMED, ["--defaultMemLevel", "PSRAM", "--l1", 2000, "--l2", 2600], "PSRAM", ["TCDM", "SRAM", "PSRAM"]),
    ):
        assert deployer(*words, "-p", target, *flags) == 0
        plan = body(tmp_path / "c")
        assert plan["options"]["outermost"] == outermost
        assert [level["name"] for level in plan["levels"]] == used


SIZES = "is not a whole number above 0 of at most 18 digits"
FORMS = "64k is 64000, 64Ki is 65536, 1M is 1000000, 1Mi is 1048576"
REFUSED = {
    "an unknown level": (NAMED, ["--budget", "L1=3000"], ["no level 'L1'", "TCDM, SRAM, PSRAM"]),
    "another case of letters": (NAMED, ["--budget", "tcdm=3000"], ["no level 'tcdm'", "TCDM, SRAM, PSRAM"]),
    "a level without name": (NAMED, ["--budget", "=3000"], ["no level ''", "TCDM, SRAM, PSRAM"]),
    "two budgets": (NAMED, ["--budget", "TCDM=3000", "--budget", "TCDM=4000"], ["TCDM", "3000 B and 4000 B"]),
    "a budget and an alias": (NAMED, ["--l2", "3000", "--budget", "SRAM=4000"], ["SRAM", "3000 B and 4000 B"]),
    "beyond the memory": (NAMED, ["--l1", "1M"], ["--budget TCDM=1000000", "--budget TCDM between 1 and 245760"]),
    "no level": (NAMED, ["--budget", "3000"], ["LEVEL=BYTES", "'3000'"]),
    "no size": (NAMED, ["--budget", "TCDM="], ["''", FORMS]),
    "an outermost level of others": (NAMED, ["--defaultMemLevel", "L2"], ["'L2'", "SRAM or PSRAM"]),
    "the innermost as outermost": (NAMED, ["--defaultMemLevel", "TCDM"], ["'TCDM'", "SRAM or PSRAM"]),
    "a third of two": (FLAT, ["--defaultMemLevel", "L3"], ["'L3'", "Outer"]),
    "a fourth level": (DEEP, ["--defaultMemLevel", "Fourth"], ["of which a plan uses 3", "Second or Third"]),
    "nothing of two": (FLAT, ["--defaultMemLevel", ""], ["''", "Outer"]),
    "a fraction": ("host", ["--l1", "1.5k"], ["'1.5k'", SIZES, FORMS]),
    "a unit of neither": ("host", ["--l1", "64K"], ["'64K'", FORMS]),
    "bits": ("host", ["--l1", "64kb"], ["'64kb'", FORMS]),
    "thousandths": ("host", ["--l2", "1m"], ["'1m'", FORMS]),
    "nothing of a unit": ("host", ["--l1", "0Ki"], ["'0Ki'", SIZES]),
    "other digits": ("host", ["--l1", "٣k"], [FORMS]),
    "no room in the first": (NAMED, ["--l1", "1"], ["does not fit TCDM", "try            --budget TCDM="]),
    "no room in the second": (
        NAMED,
        ["--l1", "2000", "--l2", "64"],
        ["do not fit SRAM", "--budget SRAM=", "--defaultMemLevel PSRAM"],
    ),
    "no room to pass through": (
        NAMED,
        ["--l1", "2000", "--l2", "64", "--defaultMemLevel", "PSRAM"],
        ["does not fit SRAM", "--budget SRAM="],
    ),
    "no room in the last": (FLAT, ["--l1", "2000", "--l2", "64"], ["do not fit Outer", "--budget Outer="]),
}


@pytest.mark.parametrize("request_", REFUSED)
def test_refused(request_: str, words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request for a missing target feature lists the features; an impossible size lists the possible ones."""
    target, flags, texts = REFUSED[request_]
    message = refused(capsys, *words, "-p", target, *flags)
    for text in texts:
        assert text in message
    assert not (tmp_path / "c" / "plan.json").exists()


def test_no_level_beyond_the_last(words: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    """A full last level proposes no other level."""
    message = refused(capsys, *words, "-p", FLAT, "--l1", 2000, "--l2", 64)
    assert "--defaultMemLevel" not in message


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The help says what the units mean."""
    assert deployer("train", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in ("--budget LEVEL=BYTES", "k is 1000", "Ki 1024", "M 1000000", "Mi 1048576"):
        assert part in text


AGAIN = {
    "the same": (["--l1", "3k", "--budget", "SRAM=9000", "--defaultMemLevel", "SRAM"], ""),
    "the same by name": (["--budget", "TCDM=3000"], ""),
    "nothing": ([], ""),
    "another": (["--l1", "4k"], "--budget TCDM  4000, in the file 3000"),
    "another by name": (["--budget", "SRAM=4k"], "--budget SRAM  4000, in the file 9000"),
    "one of its own": (["--budget", "PSRAM=4k"], "--budget PSRAM 4000, in the file none"),
    "a level further out": (["--defaultMemLevel", "PSRAM"], "--defaultMemLevel PSRAM, in the file SRAM"),
    "a level of the host": (["--budget", "L1=3000"], "no level 'L1'"),
    "an outermost level of the host": (["--defaultMemLevel", "L3"], "SRAM or PSRAM"),
}


@pytest.mark.parametrize("way", ["--skipgen", "--from"])
@pytest.mark.parametrize("flags", AGAIN)
def test_agreement(
    flags: str, way: str, artefacts: Path, words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `-p` the levels of an artefact are those of its own target."""
    more, text = AGAIN[flags]
    shutil.copytree(artefacts, tmp_path / "c")
    again = [*words, "--force", "--from", artefacts / "tiling.json"]
    if way == "--skipgen":
        again = ["train", *words[1:], "--skipgen", "--skipsim"]
    if text:
        assert text in refused(capsys, *again, *more)
    else:
        assert deployer(*again, *more) == 0


@pytest.mark.slow
def test_no_further_than_asked(words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tiling and a plan that spill keep to the level that their options name as the outermost."""
    assert deployer(*words, "-p", NAMED, "--defaultMemLevel", "PSRAM", "--l1", 2000, "--l2", 2600) == 0
    tiling, plan = (tmp_path / "c" / name for name in ("tiling.json", "plan.json"))
    for path, options in ((tiling, ("lifetimes", "schedule", "options")), (plan, ("options",))):
        artefact = json.loads(path.read_text())
        place = artefact["body"]
        for key in options:
            place = place[key]
        place["outermost"] = "SRAM"
        path.write_text(resealed(json.dumps(artefact)))
    text = "tensors lie in 3 levels, by the options in 2"
    assert text in refused(capsys, *words, "--force", "--from", tiling)
    tiling.unlink()
    assert text in refused(capsys, "emit", "--plan", plan, "-o", tmp_path / "e")


EDITS = {
    "an unknown budget": ("budgets", {"L1": 3000}, ["no level 'L1'", "TCDM, SRAM, PSRAM"]),
    "a budget of nothing": ("budgets", {"TCDM": 0}, ["--budget TCDM=0", "between 1 and"]),
    "an unknown outermost": ("outermost", "L3", ["'L3'", "SRAM or PSRAM"]),
    "an innermost outermost": ("outermost", "TCDM", ["'TCDM'", "SRAM or PSRAM"]),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("edit", EDITS)
def test_edited(
    edit: str, artefacts: Path, words: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options in a tiling file are checked against the levels of its target."""
    field, value, texts = EDITS[edit]
    path = tmp_path / "tiling.json"
    artefact = json.loads((artefacts / "tiling.json").read_text())
    artefact["body"]["lifetimes"]["schedule"]["options"][field] = value
    path.write_text(json.dumps(artefact))
    message = refused(capsys, *words, "--from", path)
    for text in texts:
        assert text in message
