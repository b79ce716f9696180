"""What the README shows is what happens; `make golden` rewrites the blocks that are printed by the program."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from deployer.core.operator import optimizers
from deployer.core.target import names
from deployer.training.attached_loss import loss_choices
from DeployTest.models import autoencoder, simple_mlp
from DeployTest.support.building.command_line import deployer, options

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = r"(<!-- shown: {} -->\n```\w+\n)(.*?)(```\n)"
ROWS = 5


def block(name: str) -> str:
    """The content of a marked block."""
    match = re.search(BLOCK.format(name), README.read_text(), re.DOTALL)
    assert match, f"README.md has no block {name!r}"
    return match[2]


def check_block(name: str, text: str, update: bool) -> None:
    """Compare a block with what was printed now, or rewrite it."""
    if update:
        page = re.sub(BLOCK.format(name), lambda m: f"{m[1]}{text}{m[3]}", README.read_text(), flags=re.DOTALL)
        README.write_text(page)
    assert block(name) == text, f"README.md shows another {name}; `make golden` rewrites it"


def test_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], update_golden: bool
) -> None:
    """The demo's output, the C it leaves, and the error of an L1 that is too small."""
    monkeypatch.chdir(tmp_path)
    commands = re.findall(
        r"^\t\$\(PY\) -m (deployer\.cli|DeployTest\S+) (.*out/demo.*)$", (ROOT / "Makefile").read_text(), re.M
    )
    [(generator, folder), (_, words)] = commands
    assert generator == "DeployTest.models.autoencoder"
    autoencoder.generate(Path(folder))
    assert deployer(*shlex.split(words)) == 0
    table, rest = capsys.readouterr().out.split("[loss 0]")
    rows = table.splitlines()
    text = "\n".join([*rows[:ROWS], f"  ... {len(rows) - ROWS} more", f"[loss 0]{rest.split('C and plan:')[0]}"])
    check_block("demo", text, update_golden)
    code = Path("out/demo/c/TrainingNetwork.c").read_text()
    functions = re.findall(r"^/\* [^\n]* \*/\nstatic void step_.*?^}\n", code, re.MULTILINE | re.DOTALL)
    check_block("code", min((f for f in functions if "_in[2] =" in f and "_like(" not in f), key=len), update_golden)
    assert deployer("train", "-t", "out/demo", "--doublebuffer", "--l1", "130") == 2
    check_block("error", capsys.readouterr().err, update_golden)


def test_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands for a model of one's own, on such a model and data."""
    simple_mlp.generate(tmp_path)
    (tmp_path / "simple_mlp.onnx").rename(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    x, labels = draw.standard_normal((6, 1, 64)).astype(np.float32), draw.integers(0, 10, (6, 1))
    np.savez("data.npz", input=x, labels=labels)
    lines = block("own model").splitlines()
    assert lines[0] == "pip install ."
    for line in lines[1:]:
        command, *words = shlex.split(line)
        assert command == "deployer"
        assert deployer(*words) == 0, line
    assert np.load("trained.npz")["loss"].shape == (6,)


def test_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that train over epochs, on a model and data."""
    simple_mlp.generate(tmp_path)
    (tmp_path / "simple_mlp.onnx").rename(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    np.savez("data.npz", input=draw.standard_normal((6, 64)).astype(np.float32), labels=draw.integers(0, 10, 6))
    for line in block("epochs").splitlines():
        command, *words = shlex.split(line)
        assert command == "deployer"
        assert deployer(*words) == 0, line


def test_flags_and_targets() -> None:
    """The tables name every flag and every target, and no others."""
    page = README.read_text()
    flags, targets = (
        re.split(rf"^\| {head} \|", page, flags=re.MULTILINE)[1].split("\n\n")[0] for head in ("flag", "target")
    )
    columns = [row.split(" | ")[0] for row in flags.splitlines()[2:]]
    named = {word for column in columns for word in re.findall(r"`(--?[\w-]+)`", column)}
    assert named - {"--seed"} == options("train") - {"-h", "--help", "--seed"}
    assert re.findall(r"^\| `(\w+)` \|", targets, re.MULTILINE) == names()


def test_options_of_train_graph() -> None:
    """Their table names every option, and no others, and every loss and optimizer."""
    table = re.split(r"^\| option \|", README.read_text(), flags=re.MULTILINE)[1].split("\n\n")[0]
    named = {word for row in table.splitlines()[2:] for word in re.findall(r"`(--?[\w-]+)`", row.split(" | ")[0])}
    assert named == options("train-graph") - {"-h", "--help"}
    rows = {
        name: next(r for r in table.splitlines() if r.startswith(f"| `--{name}`")) for name in ("loss", "optimizer")
    }
    assert set(loss_choices()) <= set(re.findall(r"`(\w+)`", rows["loss"]))
    assert set(optimizers()) == set(re.findall(r"`(\w+)`", rows["optimizer"]))


def test_links() -> None:
    """Files and folders that the README speaks of exist."""
    page = README.read_text()
    for name in re.findall(r"\]\(([^)#:]+)\)", page) + re.findall(r"^\| `([\w.]+/)` \|", page, re.MULTILINE):
        assert (ROOT / name).exists(), name
