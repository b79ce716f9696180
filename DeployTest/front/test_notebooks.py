"""The notebooks of the documentation, run as a reader runs them: what they assert holds, and what the pages show."""

import importlib
from pathlib import Path

import pytest

from DeployTest.support.documents.notebooks import cells, executed, page, scripts, structure
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch, pytest.mark.cortex_m]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_notebook(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints the lines of its page, but for numbers, and draws as many pictures."""
    importlib.import_module("deployer.torch")
    if "arm-none-eabi-gcc" in script.read_text():
        needs_core("cortex-m4")
    monkeypatch.chdir(tmp_path)
    made = page(script.stem, executed(cells(script.read_text()), script.name))
    assert structure(made[f"{script.stem}.md"]) == structure(script.with_suffix(".md").read_text())
    assert len(made) == 1 + len(list(script.parent.glob(f"{script.stem}-*.svg")))
