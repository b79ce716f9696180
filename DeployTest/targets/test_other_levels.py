"""Levels of other names and number: the same plans, C and bits; only a target's data knows what they are called."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.core import target as targets
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import bits, deployer
from DeployTest.support.building.other_levels import DEEP, FLAT, NAMED, add_targets

pytestmark = [pytest.mark.host, pytest.mark.training]
CALLED = {"TCDM": "L1", "SRAM": "L2", "PSRAM": "L3", "tcdm": "l1", "sram": "l2", "psram": "l3"}
FORMS = {
    "two levels": ["--l1", "2000", "--doublebuffer"],
    "three levels": ["--l1", "2000", "--l2", "2600", "--buffering", "auto"],
}
"""What is asked of each target; with three levels tensors may live in the last."""
FULL = ["--guards", "full", "--dma-order", "random", "--seed", "3", "-v", "--plotMemAlloc", "--profileTiling"]


@pytest.fixture(scope="module", autouse=True)
def other_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Targets with levels TCDM, SRAM and PSRAM, with Inner and Outer, and with four of them."""
    with pytest.MonkeyPatch.context() as patch:
        add_targets(tmp_path_factory.mktemp("targets"), patch)
        yield


def train(target: str, form: str, root: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Every text that a training run prints or writes, by name; its weights lie in `folder`, as d.npz."""
    outermost = targets.load(target).levels[2 if form == "three levels" else 1].name
    words = ["train", "-t", case_dir("simple_mlp", root), "-p", target, "-o", folder, "--dump", folder / "d.npz"]
    capsys.readouterr()
    assert deployer(*words, *FORMS[form], "--defaultMemLevel", outermost, *FULL) == 0
    files = {p.name: p.read_text() for p in folder.iterdir() if p.suffix in (".c", ".h", ".json", ".html")}
    texts = {**files, "said": capsys.readouterr().out}
    # Reports show the command line, which has the host's words for levels.
    return {n: re.sub("--l[12] ", "--budget ", text) if n.startswith("report.") else text for n, text in texts.items()}


def renamed(name: str, text: str, folder: Path) -> str:
    """The text as it would be for the host; digests are over names as well, and times are never the same."""
    for mine, theirs in CALLED.items():
        text = re.sub(rf"(?<![A-Za-z]){mine}(?=\b|_)", theirs, text)
        text = text.replace(f"_{mine.upper()}_BYTES", f"_{theirs.upper()}_BYTES")
    text = re.sub(r'plan [0-9a-f]{16}|(?<="digest":")[0-9a-f]{16}(?=")', "", text).replace(NAMED, "host")
    if name.endswith(".json"):  # whose lines are as full as their names allow
        text = json.dumps(json.loads(text), indent=1)
    return "\n".join(line for line in text.splitlines() if str(folder) not in line)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("form", FORMS)
def test_same_by_other_names(form: str, models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan, tiling, C, memory map and reports are the host's with other names, and the bits are the same."""
    mine = train(NAMED, form, models_root, tmp_path / "mine", capsys)
    host = train("host", form, models_root, tmp_path / "host", capsys)
    assert bits(tmp_path / "mine" / "d.npz") == bits(tmp_path / "host" / "d.npz")
    assert mine.keys() == host.keys()
    for name, text in mine.items():
        assert not re.search(r"\b[lL][123]\b|\b[lL][123]_|_[lL][123]\b", text), f"{name} names a level of the host"
        assert renamed(name, text, tmp_path) == renamed(name, host[name], tmp_path), name


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("target", "form", "used"),
    [
        (FLAT, "two levels", ("Inner", "Outer")),
        (DEEP, "two levels", ("Near", "Second")),
        (DEEP, "three levels", ("Near", "Second", "Third")),
    ],
)
def test_other_number(
    target: str,
    form: str,
    used: tuple[str, ...],
    models_root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A target with fewer or more levels trains to the host's bits, and names its own levels."""
    mine = train(target, form, models_root, tmp_path / "mine", capsys)
    train("host", form, models_root, tmp_path / "host", capsys)
    assert bits(tmp_path / "mine" / "d.npz") == bits(tmp_path / "host" / "d.npz")
    for name, text in mine.items():
        assert not re.search(r"\b[lL][123]\b|\b[lL][123]_|_[lL][123]\b", text), f"{name} names a level of the host"
    for level in used:
        assert f"<h2>{level}</h2>" in mine["memory.html"]
        assert f"{level}: peak" in mine["said"]
        assert f"hal_memory_{level.lower()}" in mine["SimulationMap.c"]
    bytes_of = re.findall(r"(\w+)_bytes=", mine["said"])
    assert bytes_of == [level.name.lower() for level in targets.load(target).levels]
