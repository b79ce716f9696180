"""The README is short; its commands and those of the command-line page work. test_site.py has its generated parts."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from deployer.core.operator import optimizers
from deployer.training.attached_loss import loss_choices
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
README, COMMANDS = ROOT / "README.md", ROOT / "docs/command-line.md"
MOST_LINES = 120
INSTALL = "pip install ."


def test_short() -> None:
    """A stranger reads all of it."""
    assert len(README.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize(("page", "name"), [(README, "own model"), (COMMANDS, "epochs"), (COMMANDS, "case")])
def test_commands(page: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands for a model of one's own, on such a model and data; all its weights move."""
    block = re.search(rf"<!-- shown: {name} -->\n```sh\n(.*?)```\n", page.read_text(), re.DOTALL)
    assert block, f"{page.name} has no block {name!r}"
    simple_mlp.generate(tmp_path)
    (tmp_path / "simple_mlp.onnx").rename(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    np.savez("data.npz", input=draw.standard_normal((6, 64)).astype(np.float32), labels=draw.integers(0, 10, 6))
    lines = [line for line in block[1].splitlines() if line != INSTALL]
    for line in lines:
        command, *words = shlex.split(line)
        assert command == "deployer"
        assert deployer(*words) == 0, line
    if any("--dump trained.npz" in line for line in lines):
        assert np.load("trained.npz")["loss"].shape == (6,)


def test_losses_and_optimizers() -> None:
    """The page's tables have every loss and every optimizer, and no others."""
    page = COMMANDS.read_text()
    tables = {
        head: re.split(rf"^\| `--{head}` \|", page, flags=re.M)[1].split("\n\n")[0] for head in ("loss", "optimizer")
    }
    named = {
        head: {word for row in table.splitlines()[2:] for word in re.findall(r"`(\w+)`", row.split(" | ")[0])}
        for head, table in tables.items()
    }
    assert named == {"loss": set(loss_choices()), "optimizer": set(optimizers())}


def test_links() -> None:
    """Files and folders that the README and the repository's layout speak of exist."""
    layout = (ROOT / "docs/install.md").read_text()
    for name in re.findall(r"\]\(([^)#:]+)\)", README.read_text()) + re.findall(r"^\| `([\w.]+/)` \|", layout, re.M):
        assert (ROOT / name).exists(), name
