"""The program of the page that trains on its own text: its loss falls here, and a core prints the same."""

import re
import subprocess
from pathlib import Path

import pytest

from deployer.lm.evaluation import scores_of, text_loss
from deployer.lm.folder import read_model
from deployer.lm.rows import read_rows
from deployer.sizing.boards import CORES, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.support.building.command_line import deployer
from DeployTest.support.documents.site_pages import DOCS
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training]
FLAGS = "-std=c11 -O1 -g -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -fsanitize=address,undefined"
SIZES = ("layers=1", "dim=32", "hidden=48", "heads=2", "kv_heads=2", "context=64")
BATCH, MOST_LINES = 4, 60


def program() -> str:
    """The page's only program of C."""
    [text] = re.findall(r"^```c\n(.*?)^```$", (DOCS / "language-models.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def text_of(source: str) -> str:
    """The text that a program learns."""
    [literals] = re.findall(r"text\[\] =\n(.*?);\n", source, re.DOTALL)
    return "".join(re.findall(r'"(.*?)"', literals))


@pytest.fixture(scope="module")
def tutor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and a library that trains it."""
    root = tmp_path_factory.mktemp("tutor")
    assert deployer("lm", "stories", root / "stories.txt", "--count", 20, "--quiet") == 0
    assert deployer("lm", "new", root / "tiny", *(word for size in SIZES for word in ("-s", size)), "--quiet") == 0
    words = ["--batch-size", BATCH, "--n-steps", 20, "--lr", 0.01, "--check-passes", "none", "--quiet"]
    assert deployer("lm", "train", root / "tiny", "--text", root / "stories.txt", *words) == 0
    assert deployer("lm", "package", root / "tiny", "-o", root / "tutor", "--name", "tutor", "--train", "--quiet") == 0
    return root


def printed(tutor: Path, source: str, place: Path) -> str:
    """The output of a program of this machine."""
    (place / "main.c").write_text(source)
    sources = [place / "main.c", *sorted((tutor / "tutor/src").glob("*.c"))]
    command = ["gcc", *FLAGS.split(), f"-I{tutor / 'tutor/include'}", *map(str, sources), "-lm", "-o", place / "main"]
    subprocess.run(command, check=True)
    return subprocess.run([place / "main"], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_it_learns_its_text(tutor: Path, tmp_path: Path) -> None:
    """The first loss is that of the text in Python, the last a fraction of it; then it says the text by heart."""
    source = program()
    assert len(source.splitlines()) <= MOST_LINES
    before, *passes, after = printed(tutor, source, tmp_path).splitlines()
    losses = [float(line.split()[-1]) for line in passes]
    model, text = read_model(tutor / "tiny"), text_of(source)
    (tmp_path / "text.txt").write_text(text)
    rows = read_rows(tmp_path / "text.txt", model.tokenizer, model.architecture)
    assert len(rows.ids) == BATCH, "a pass has the whole text"
    with scores_of(model, BATCH) as scores:
        assert losses[0] == pytest.approx(text_loss(scores, rows, BATCH).loss, abs=1e-4)
    assert losses[-1] < losses[0] / 4
    assert text.startswith(after)
    assert not text.startswith(before)


@pytest.mark.slow
@pytest.mark.cortex_m
def test_a_core_learns_the_same(tutor: Path, tmp_path: Path) -> None:
    needs_core("cortex-m4")
    core, source = core_of("cortex-m4"), program().replace("PASSES 150u", "PASSES 3u")
    expected = printed(tutor, source, tmp_path)
    assert len(expected.splitlines()) == 5
    sources = [tmp_path / "main.c", *sorted((tutor / "tutor/src").glob("*.c")), CORES / "start.c"]
    words = [*compile_words(core), f"-I{tutor / 'tutor/include'}", *map(str, sources), *link_words(core)]
    subprocess.run([*words, "-o", tmp_path / "program.elf"], check=True)
    assert run_program(core, tmp_path / "program.elf") == expected
