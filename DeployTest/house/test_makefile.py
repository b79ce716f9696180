"""The Makefile empties no folder that is not its own."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.host
ROOT = Path(__file__).resolve().parents[2]


def make_environment(folder: Path) -> subprocess.CompletedProcess[str]:
    """Let make set up `folder`/.venv; a Python that does nothing stands in for the one that would make it."""
    python = folder / "python"
    python.write_text("#!/bin/sh\necho ran >> " + str(folder / "ran") + "\n")
    python.chmod(0o755)
    venv = folder / ".venv"
    words = ["make", "-C", str(ROOT), "-f", str(ROOT / "Makefile"), f"VENV={venv}", f"PYTHON={python}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run([*words, f"{venv}/.ready"], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("link", [False, True])
def test_foreign_folder(link: bool, tmp_path: Path) -> None:
    """Neither what a link points at, nor a folder that is no environment."""
    place = tmp_path / ("elsewhere" if link else ".venv")
    place.mkdir()
    (place / "theirs").write_text("kept")
    if link:
        (place / "pyvenv.cfg").write_text("")
        (tmp_path / ".venv").symlink_to(place)
    run = make_environment(tmp_path)
    assert run.returncode == 2
    assert ("is a link" if link else "is not a virtual environment") in run.stderr
    assert "set VENV=DIR" in run.stderr
    assert (place / "theirs").read_text() == "kept"


def test_own_folder(tmp_path: Path) -> None:
    """An environment of an earlier run is made anew."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("")
    make_environment(tmp_path)
    assert "ran" in (tmp_path / "ran").read_text()
