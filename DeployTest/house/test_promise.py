"""The promise of CONTRIBUTING: an operator, an optimizer, a loss and a target are added, and no other file is edited.

The files of the how-to pages go into a copy of the checkout, and the suite's own tests find and pass them there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from DeployTest.house.test_layout import ROOT, files
from DeployTest.operators.test_packages import BLOCK, OUTSIDE
from DeployTest.support.graphs.small_graphs import chain, constant, node

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow]
ROOMS = {
    "squareplus.py": "deployer/operators/elementwise",
    "soft_ratio.py": "deployer/operators/elementwise",
    "poisson_loss.py": "deployer/operators/loss",
    "momentum_sgd.py": "deployer/operators/update",
    "lab_board.toml": "targets",
}
"""Where the files of the pages lie in the project; kernels have a folder of their own."""
ADDED = "SoftRatio or Squareplus or PoissonLoss or MomentumSGD"


def added() -> Iterator[tuple[str, str]]:
    """Files that the how-tos have a reader add, by their places in the project; a package's own files have none."""
    for page in sorted((ROOT / "docs/how-to").glob("*.md")):
        for path, text in BLOCK.findall(page.read_text()):
            name = Path(path).name
            folder = "targets/common/kernels" if name.endswith(".c") else ROOMS.get(name)
            if folder:
                yield f"{folder}/{name}", text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files in a folder of their own, and those of the pages beside them."""
    folder = tmp_path_factory.mktemp("promise") / "project"
    for path in files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for place, text in added():
        assert not (folder / place).exists(), f"{place} exists"
        (folder / place).write_text(text)
    return folder


def run_in(folder: Path, *words: object) -> str:
    """The output of a Python module in the copy; its failure is one of the test."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-m", *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout


def passed_in(folder: Path, *words: object) -> int:
    """The number of tests that pytest runs in the copy, all of which pass."""
    out = run_in(folder, "pytest", "-q", "-p", "no:cacheprovider", *words)
    return int(out.split(" passed")[0].split()[-1])


def test_every_kind_is_added() -> None:
    """The pages have an operator with its kernels, a loss, an optimizer and a target."""
    places = [place for place, _ in added()]
    assert {Path(place).name for place in places} >= set(ROOMS)
    kernels = sorted(Path(place).stem for place in places if place.endswith(".c"))
    assert kernels == [
        "momentum_sgd_f32",
        "poisson_loss_f32",
        "poisson_loss_grad_f32",
        "soft_ratio_f32",
        "soft_ratio_grad_f32",
    ]


def test_operators(copy: Path) -> None:
    """The tests of all operators find them, and judge meaning, gradient, access and any tiles."""
    names = {"SoftRatio", "SoftRatioGrad", "Squareplus", "SquareplusGrad", "PoissonLoss", "MomentumSGD"}
    collected = run_in(copy, "pytest", "-q", "--collect-only", "DeployTest/operators/test_operators.py", "-k", ADDED)
    assert {name for name in names if f"[{name}-" in collected} == names
    rooms = ("test_operators.py", "test_contract.py", "test_declared.py", "test_numbers.py")
    chosen = f"{ADDED} or test_numbers or families"
    assert passed_in(copy, *(f"DeployTest/operators/{name}" for name in rooms), "-k", chosen) >= 40


def test_roles(copy: Path) -> None:
    """The tests of optimizers, losses, targets and files find them."""
    rooms = (
        "training/test_optimizers.py",
        "training/test_losses.py",
        "targets/test_targets.py",
        "frontend/test_file_forms.py",
    )
    chosen = f"{ADDED} or lab_board or poisson or momentum"
    assert passed_in(copy, *(f"DeployTest/{room}" for room in rooms), "-m", "not slow", "-k", chosen) >= 5


def test_house(copy: Path) -> None:
    """Layout and names have no list to edit; generated pages are written by one command, and are then current."""
    run_in(copy, "DeployTest.support.documents.site_pages")
    for page, name in (("docs/operators.md", "| PoissonLoss |"), ("docs/reference/targets.md", "| `lab_board` |")):
        assert name in (copy / page).read_text(), page
    estimates = (copy / "docs/reference/targets.md").read_text().partition("cycles are estimates")[2]
    row = next(line for line in estimates.splitlines() if line.startswith("| `siracusa` |"))
    for kernel in ("momentum_sgd_f32", "poisson_loss_f32", "poisson_loss_grad_f32", "soft_ratio_f32"):
        assert f"`{kernel}`" in row
    house = [f"DeployTest/house/{name}.py" for name in ("test_layout", "test_names", "test_rooms", "test_target_keys")]
    assert passed_in(copy, *house, "DeployTest/house/test_site.py::test_current", "-k", "not loads_no_solver") >= 30
    run_in(copy, "ruff", "check", "deployer")
    run_in(copy, "ruff", "format", "--check", "deployer")


def test_training(copy: Path, tmp_path: Path) -> None:
    """A model with the operators trains by the loss and the optimizer on the target; estimated kernels are named."""
    draw = np.random.default_rng(3)
    weights = {"w1": draw.standard_normal((3, 5)), "w2": draw.standard_normal((5, 2))}
    nodes = (
        node("Gemm", ("x", "w1"), ("h",)),
        node("SoftRatio", ("h",), ("a",), domain=OUTSIDE),
        node("Squareplus", ("a",), ("s",), domain=OUTSIDE),
        node("Gemm", ("s", "w2"), ("y",)),
    )
    constants = tuple(constant(n, w.astype(np.float32)) for n, w in weights.items())
    model = chain(*nodes, x=(4, 3), initializers=constants)
    replace(model, opsets=(*model.opsets, (OUTSIDE, 1))).save(tmp_path / "model.onnx")
    words = ("--loss", "poisson", "--optimizer", "momentum", "--momentum", "0.5", "--lr", "0.01", "-o", tmp_path)
    run_in(copy, "deployer.cli", "train-graph", tmp_path / "model.onnx", *words)
    case, report = tmp_path / "model_train", tmp_path / "out"
    said = " ".join(run_in(copy, "deployer.cli", "train", "-t", case, "-p", "lab_board", "-o", report).split())
    own = ("momentum_sgd", "poisson_loss", "soft_ratio", "soft_ratio_grad", "squareplus", "squareplus_grad")
    assert f"has no costs for {', '.join(f'{name}_f32' for name in own)}; those of its default kernel are used" in said
    assert said.endswith("passed") or " passed" in said, said
