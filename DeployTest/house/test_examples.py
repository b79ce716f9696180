"""The examples' page, as a reader follows it: every command in it runs, and the net learns."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "examples/README.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


QUICK = "A signal without its noise"


def commands(section: str) -> list[str]:
    """The command lines of a section's fences, a continued line as one."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


def marks(section: str) -> list[pytest.MarkDecorator]:
    """Return a section's marks: slow, PyTorch."""
    return [pytest.mark.slow] * (section != QUICK) + [pytest.mark.torch] * ("PyTorch" in section)


@pytest.mark.parametrize("section", [pytest.param(x, marks=marks(x)) for x in sorted(SECTIONS)])
def test_example(section: str, tmp_path: Path) -> None:
    """Each command ends with 0, and the last loss of each run is below half of its first."""
    if "PyTorch" in section and not all(importlib.util.find_spec(name) for name in ("torch", "onnxscript")):
        pytest.skip("PyTorch and onnxscript are not installed")
    folder, programs = tmp_path / "examples", tmp_path / "bin"
    shutil.copytree(ROOT / "examples", folder)
    programs.mkdir()
    for name, words in (("python", ""), ("deployer", " -m deployer")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for command in commands(section):
        run = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{command}: {run.stderr}"
        losses = [float(value) for value in re.findall(r"^\[loss \d+\] computed=(\S+)", run.stdout, re.MULTILINE)]
        assert not losses or losses[-1] < losses[0] / 2, f"{command}: the loss went from {losses[0]} to {losses[-1]}"


def test_every_script_is_shown() -> None:
    """The page names each script of the folder."""
    scripts = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert scripts == set(re.findall(r"^python (\S+\.py) ", PAGE, re.MULTILINE))
