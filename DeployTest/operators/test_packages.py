"""Packages beside the deployer: their operators, optimizers, kernels and targets are used as its own."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deployer.core.target import TARGETS_DIR
from DeployTest.support.graphs.small_graphs import chain, constant, node
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
RATE, MOMENTUM, PASSES, EACH = 0.05, 0.75, 8, 2
OUTSIDE, WIDTH = "org.outside", 2.0
Array = npt.NDArray[np.float64]
Arrays = dict[str, Array]


def distribution(folder: Path, name: str, **groups: str) -> None:
    """Write the metadata of an installed distribution: its name, and an entry point per group."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[deployer.{group}]\nentry = {module}\n" for group, module in groups.items()]
    (place / "entry_points.txt").write_text("\n".join(lines))


def deployer(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The command in a process that finds what lies in a folder."""
    command = [sys.executable, "-m", "deployer.cli", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


BLOCK = re.compile(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file in a how-to: its path, and its text in a fence."""


def save_pages(folder: Path) -> None:
    """Every file that the how-tos have a reader write."""
    for page in sorted((ROOT / "docs/how-to").glob("*.md")):
        for path, text in BLOCK.findall(page.read_text()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            assert not (folder / path).exists(), f"{page.name} has {path}, which another page has"
            (folder / path).write_text(text)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the packages of the how-tos, installed, and a machine with a HAL of its own."""
    folder = tmp_path / "installed"
    save_pages(folder)
    machine = folder / "lab_targets"
    shutil.copytree(TARGETS_DIR / "host", machine / "lab_hal")
    text = (TARGETS_DIR / "host.toml").read_text()
    for old, new in (('name = "host"', 'name = "lab"'), ('sources = ["host"]', 'sources = ["lab_hal"]')):
        assert old in text
        text = text.replace(old, new)
    (machine / "lab.toml").write_text(re.sub(r"inherits = .*", 'inherits = "host"', text))
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    points = {group.removeprefix("deployer."): names["lab"] for group, names in project["entry-points"].items()}
    distribution(folder, project["name"], **points)
    return folder


def _model(path: Path, weights: Arrays) -> None:
    nodes = (
        node("Gemm", ("x", "w1", "b1"), ("h",)),
        node("SoftRatio", ("h",), ("a",), domain=OUTSIDE),
        node("Squareplus", ("a",), ("s",), domain=OUTSIDE, width=WIDTH),
        node("Gemm", ("s", "w2"), ("y",)),
    )
    constants = tuple(constant(n, w.astype(np.float32)) for n, w in weights.items())
    model = chain(*nodes, x=(4, 3), initializers=constants)
    replace(model, opsets=(*model.opsets, (OUTSIDE, 1))).save(path)


def _weights(seed: int) -> Arrays:
    draw = np.random.default_rng(seed)
    return {n: draw.standard_normal(shape) * 0.5 for n, shape in (("w1", (3, 5)), ("b1", (5,)), ("w2", (5, 2)))}


def _training_case(package: Path, folder: Path, *words: object) -> Path:
    """A training case of a small model."""
    _model(folder / "model.onnx", _weights(8))
    run = deployer(package, "train-graph", folder / "model.onnx", "--loss", "mse", "-o", folder, *words)
    assert run.returncode == 0, run.stderr
    return folder / "model_train"


def _trained(
    weights: Arrays, x: npt.NDArray[np.float64], target: npt.NDArray[np.float64]
) -> tuple[list[float], Arrays]:
    """Losses, final weights and velocities in float64, by formulas of their own."""
    w, losses = {n: a.astype(np.float32).astype(np.float64) for n, a in weights.items()}, []
    v = {n: np.zeros_like(a) for n, a in w.items()}
    total = {n: np.zeros_like(a) for n, a in w.items()}
    for index in range(PASSES):
        sample, label = x[index % len(x)], target[index % len(x)]
        h = sample @ w["w1"] + w["b1"]
        a = h / (1 + abs(h))
        root = np.sqrt(a * a + WIDTH)
        s = (a + root) / 2
        error = s @ w["w2"] - label
        losses.append(float((error**2).mean()))
        dy = 2 * error / error.size
        dh = dy @ w["w2"].T * (1 + a / root) / 2 / (1 + abs(h)) ** 2
        for n, gradient in (("w1", sample.T @ dh), ("b1", dh.sum(0)), ("w2", s.T @ dy)):
            total[n] += gradient
        if index % EACH == EACH - 1:
            for n in w:
                v[n] = MOMENTUM * v[n] + total[n]
                w[n] = w[n] - np.float32(RATE) * v[n]
                total[n] = np.zeros_like(w[n])
    return losses, w | {f"{n}_velocity": a for n, a in v.items()}


@pytest.mark.slow
def test_training_with_a_loss_of_a_package(package: Path, tmp_path: Path) -> None:
    """Its losses are the formula's, pass by pass, and it is offered beside the others."""
    weights, draw = _weights(6), np.random.default_rng(7)
    x, counts = draw.standard_normal((3, 4, 3)).astype(np.float32), draw.poisson(2, (3, 4, 2)).astype(np.float32)
    _model(tmp_path / "model.onnx", weights)
    np.savez(tmp_path / "data.npz", x=x, target=counts)
    words = ["--loss", "poisson", "--lr", "1e-30", "--data", tmp_path / "data.npz", "-o", tmp_path]
    command = deployer(package, "train-graph", tmp_path / "model.onnx", *words)
    assert command.returncode == 0, command.stderr
    dump = tmp_path / "final.npz"
    run = deployer(package, "train", "-t", tmp_path / "model_train", "-o", tmp_path / "out", "--dump", dump)
    assert run.returncode == 0, run.stdout + run.stderr
    h = x @ weights["w1"] + weights["b1"]
    a = h / (1 + abs(h))
    y = (a + np.sqrt(a * a + WIDTH)) / 2 @ weights["w2"]
    with np.load(dump) as results:
        assert_close("MSELoss", results["loss"], (np.exp(y) - counts * y).mean((1, 2)))


@pytest.mark.parametrize(
    "target", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("host", "lab")), "lab_board"]
)
def test_training_with_a_package(package: Path, tmp_path: Path, target: str) -> None:
    """Its activation, its optimizer with state, its kernels and its target, as numpy has them in float64."""
    weights, draw = _weights(6), np.random.default_rng(7)
    x, labels = (draw.standard_normal((3, 4, n)).astype(np.float32) for n in (3, 2))
    _model(tmp_path / "model.onnx", weights)
    np.savez(tmp_path / "data.npz", x=x, target=labels)
    words = [
        "--loss",
        "mse",
        "--optimizer",
        "momentum",
        "--momentum",
        MOMENTUM,
        "--lr",
        RATE,
        "--data",
        tmp_path / "data.npz",
    ]
    words += ["--accumulate-grad-batches", EACH, "--n-steps", PASSES, "-o", tmp_path]
    command = deployer(package, "train-graph", tmp_path / "model.onnx", *words)
    assert command.returncode == 0, command.stderr
    case, dump = tmp_path / "model_train", tmp_path / "final.npz"
    run = deployer(package, "train", "-t", case, "-p", target, "-o", tmp_path / "out", "--dump", dump)
    assert run.returncode == 0, run.stdout + run.stderr
    own = ("momentum_sgd", "soft_ratio", "soft_ratio_grad", "squareplus", "squareplus_grad")
    warning = f"has no costs for {', '.join(f'{name}_f32' for name in own)};"
    assert warning in " ".join(run.stdout.split()), "kernels without a cost are named"
    losses, final = _trained(weights, x.astype(np.float64), labels.astype(np.float64))
    with np.load(dump) as results:
        assert_close("MSELoss", results["loss"], np.array(losses))
        for name, array in final.items():
            assert_close("Gemm", results[name], array)
    printed = (tmp_path / "out/OptimizerNetwork.c").read_text()
    assert "momentum_sgd_f32" in printed


@pytest.mark.slow
def test_an_optimizer_alone(package: Path, tmp_path: Path) -> None:
    """`deployer optimizer` begins with the declared state; another learning rate changes the weights alone."""
    case, finals = _training_case(package, tmp_path, "--optimizer", "momentum"), []
    for rate in (0.5, 0.25):
        dump = tmp_path / f"{rate}.npz"
        words = ["-t", case, "-o", tmp_path / str(rate), "--lr", rate, "--dump", dump]
        run = deployer(package, "optimizer", *words)
        assert run.returncode == 0, run.stdout + run.stderr
        with np.load(dump) as results:
            finals.append({n: results[n] for n in results.files})
    assert (finals[0]["w1_updated"] != finals[1]["w1_updated"]).any()
    assert (finals[0]["w1_velocity_updated"] == finals[1]["w1_velocity_updated"]).all()


NAME_CLASHES = {
    "an operator": (
        "operators",
        ("soft_ratio.py", 'name = "SoftRatio"', 'name = "ReluGrad"'),
        ("operator ReluGrad is registered twice", "elementwise.activation.ReluGrad", "soft_ratio.SoftRatio"),
    ),
    "an optimizer": (
        "operators",
        (
            "momentum_sgd.py",
            'Optimizer("momentum", rate=RATE.place, states={2: State("_velocity")}, settings=(HEAVY,))',
            'Optimizer("sgd", rate=RATE.place, states={2: State("_velocity")})',
        ),
        ("optimizer 'sgd' is registered twice", "deployer.operators.update.optimizers.SGD", "momentum_sgd.MomentumSGD"),
    ),
    "a part is missing": ("operators", ("soft_ratio.py", "def gradient", "def other"), ("SoftRatio lacks gradient",)),
    "a trait's part in the class": (
        "operators",
        ("soft_ratio.py", '    name = "SoftRatio"\n', '    name = "SoftRatio"\n    sums = None\n'),
        ("parts of operator SoftRatio belong to a trait: `sums` to `execution`",),
    ),
    "another trait": (
        "operators",
        ("soft_ratio.py", '    name = "SoftRatio"\n', '    name = "SoftRatio"\n    fusion = "Relu"\n'),
        ("`fusion` of operator SoftRatio is no Fusion",),
    ),
    "no module": ("operators", ("soft_ratio.py", "import numpy", "import nonumpy"), ("cannot be loaded", "nonumpy")),
    "a folder": ("operators", ("__init__.py", '"kernels"', '"kernel"'), ("KERNELS of lab_operators is not a folder",)),
    "a target": ("targets", ("lab.toml", "", ""), ("target 'host' is defined twice", "lab_targets/host.toml")),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("fault", NAME_CLASHES)
def test_faults_of_a_package(package: Path, fault: str) -> None:
    """A name that exists already is an error that names both places; a package that does not load is an error, too."""
    part, (file, old, new), texts = NAME_CLASHES[fault]
    path = package / f"lab_{part}" / file
    path.write_text(path.read_text().replace(old, new) if old else path.read_text())
    if part == "targets":
        path.rename(path.with_name("host.toml"))
    run = deployer(package, part)
    assert run.returncode == 2, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    for text in (*texts, "PackageProblem"):
        assert text in run.stderr, run.stderr


@pytest.mark.slow
def test_two_files_of_a_kernel(package: Path, tmp_path: Path) -> None:
    """A second C file for all targets under a kernel's name is refused, and both files are named."""
    (package / "lab_operators/kernels/gemm_f32.c").write_text("/* another */\n")
    run = deployer(package, "train", "-t", _training_case(package, tmp_path), "-o", tmp_path / "out")
    assert run.returncode == 2, run.stdout + run.stderr
    for text in ("kernel gemm_f32 has 2 C files", "common/kernels/gemm_f32.c", "lab_operators/kernels/gemm_f32.c"):
        assert text in run.stderr


@pytest.mark.slow
def test_without_the_package(tmp_path: Path) -> None:
    """Without the package its operator and its optimizer do not exist."""
    _model(tmp_path / "model.onnx", _weights(9))
    words = ["--loss", "mse", "-o", tmp_path]
    assert "'SoftRatio'" not in deployer(tmp_path, "operators").stdout
    run = deployer(tmp_path, "train-graph", tmp_path / "model.onnx", *words)
    assert run.returncode == 2
    assert "SoftRatio" in run.stderr
    run = deployer(tmp_path, "train-graph", tmp_path / "model.onnx", "--optimizer", "momentum", *words)
    assert run.returncode == 2
    assert "invalid choice: 'momentum'" in run.stderr
