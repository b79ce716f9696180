"""The pages of the site: what the product says of itself is current, every page is reached, what they show works."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from DeployTest.support.building.command_line import deployer, options
from DeployTest.support.documents import notebooks, site_pages

pytestmark = [pytest.mark.host, pytest.mark.training]
DOCS = site_pages.DOCS
FOLLOWED = ("fit.md", "pytorch.md", "fine-tuning.md", "exporters.md", "language-models.md")
"""Pages that a reader follows from top to bottom in one folder."""
ELSEWHERE = {f"how-to/{name}.md" for name in ("board", "package", "operator", "kernel", "loss", "optimizer", "target")}
ELSEWHERE |= {f"notebooks/{script.stem}.md" for script in notebooks.scripts()}
"""Pages whose blocks the tests of packages, of boards and of notebooks run."""
SHOWN = ("text", "console", "mermaid", "{eval-rst}", "{toctree}")
"""What is no program: output, pictures, parts of the site; and what needs an environment that no test has."""
COMPILED = {
    "architecture.md": ("c",),
    "boards.md": ("toml",),
    "firmware-state.md": ("c",),
    "firmware.md": ("c", "python"),
    "language-models.md": ("c",),
    "porting.md": ("c",),
}
"""Blocks that tests of other rooms build, run or read."""
BLOCK = re.compile(r"^```(\w*)( torch)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str, str]]:
    return BLOCK.findall((DOCS / page).read_text())


def test_current() -> None:
    """Tables and messages are as `python -m DeployTest.support.documents.site_pages` would write them."""
    assert site_pages.stale() == []


def test_every_page_is_reached() -> None:
    """The index names every page."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    named = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md")} - {"index"}
    assert sorted(named) == sorted(pages)


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_blocks(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of Python and of commands that need no PyTorch, one after another."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, needs, text in _blocks(page):
        if language == "python" and not needs:
            exec(compile(text, page, "exec"), names)
        for line in text.splitlines() if language == "sh" else ():
            command, *words = shlex.split(line)
            assert command == "deployer"
            assert deployer(*words, "--quiet") == 0, line
    for file in sorted(Path().glob("*/trained.npz")):
        with np.load(file) as arrays:
            assert all(np.isfinite(array).all() and array.any() for array in arrays.values()), file


@pytest.mark.parametrize("page", FOLLOWED)
@pytest.mark.torch
def test_blocks_of_torch(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need it."""
    if not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for _, needs, text in _blocks(page):
        if needs:
            exec(compile(text, page, "exec"), names)


def test_no_block_is_left_out() -> None:
    """A program stands on a page that is followed; commands elsewhere are modules of this checkout, or have options
    that there are. Every block says what it is.
    """
    for path in sorted(DOCS.rglob("*.md")):
        page = str(path.relative_to(DOCS))
        fences = re.findall(r"^```(.*)$", path.read_text(), re.MULTILINE)[::2]
        kinds = {fence.split()[0] if fence else "" for fence in fences} - {*SHOWN, "python", "sh"}
        assert page in ELSEWHERE or kinds <= {*COMPILED.get(page, ())}, f"{page}: blocks of {kinds}"
        if page in FOLLOWED or page in ELSEWHERE:
            continue
        for language, _, text in _blocks(page):
            assert language != "python" or language in COMPILED.get(page, ()), f"{page} has a block that no test runs"
            for line in text.splitlines() if language == "sh" else ():
                words = shlex.split(line, comments=True)
                if words[:1] == ["deployer"]:
                    end = words.index("--") if "--" in words else len(words)
                    for command in filter(None, (words[1:end], words[end + 1 :])):
                        assert {x for x in command if x.startswith("-")} <= options(command[0]), f"{page}: {line}"
                if "-m" in words:
                    module = words[words.index("-m") + 1]
                    assert importlib.util.find_spec(module), f"{page}: {line}"
