"""Page about training over epochs: files and options are complete; loading the package is cheap."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.fitting import fit
from DeployTest.support.building.command_line import options

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/fit.md").read_text()


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
