"""The page about training over epochs, as a reader follows it: each block runs, one after another in one folder."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deployer.fitting import fit
from DeployTest.support.command_line import deployer, options

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/fit.md").read_text()
BLOCKS = re.findall(r"^```(\w+)( torch)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of Python and of commands that need no PyTorch."""
    monkeypatch.chdir(tmp_path)
    for language, needs, text in BLOCKS:
        if language == "python" and not needs:
            exec(compile(text, "docs/fit.md", "exec"), {})
        for line in text.splitlines() if language == "sh" else ():
            command, *words = shlex.split(line)
            assert command == "deployer"
            assert deployer(*words, *(["--quiet"] if words[0] == "fit" else [])) == 0, line
    first, second = (np.load(f"{folder}/trained.npz")["weight"] for folder in ("run", "again"))
    assert first.shape == second.shape == (3, 8)
    assert (first != second).any(), "one of them went on for three more epochs"


def test_blocks_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need it."""
    if not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    for _, needs, text in BLOCKS:
        if needs:
            exec(compile(text, "docs/fit.md", "exec"), {})


def test_files_of_a_run() -> None:
    """The table names every file that a run leaves, and the page no option that there is not."""
    rows = re.split(r"^\| file \|", PAGE, flags=re.MULTILINE)[1].split("\n\n")[0]
    named = set(re.findall(r"`([\w.]+\.\w+)`", rows))
    written = {fit.HISTORY, fit.PAGE, fit.REPORT, fit.CHECKPOINT, fit.BEST, *fit.TRAINED}
    assert named == written
    assert set(re.findall(r"`(--[\w-]+)", PAGE)) <= options("fit")


def test_nothing_heavy_is_loaded() -> None:
    """The package, the command line and its help wait for no numpy, no onnx, no solver and no terminal library."""
    heavy = {"numpy", "onnx", "ortools", "rich", "mako", "google"}
    words = "import sys, deployer, deployer.cli; from deployer.commands.parser import parser; "
    words += "text = parser().format_help(); assert 'fit' in text; "
    words += f"loaded = {heavy!r} & {{name.split('.')[0] for name in sys.modules}}; assert not loaded, loaded"
    subprocess.run([sys.executable, "-c", words], check=True, cwd=ROOT)
    assert callable(importlib.import_module("deployer").fit)
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        _ = importlib.import_module("deployer").fits
