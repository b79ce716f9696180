"""Labels outside the classes, and numbers that are none: each is named with its place, and no run trains on it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch
from deployer.frontend.dataset import load
from deployer.running.run import Outcome
from deployer.training.train_graph import build_train_graph
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import mlp, random
from DeployTest.support.graphs.small_graphs import INT64, TRAIN, Case, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]

LOSS, GRAD = "SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad"
CLASSES = Case(
    train=replace(
        TRAIN,
        nodes=(
            TRAIN.nodes[0],
            node(LOSS, ("y", "t"), ("loss", "log_prob")),
            node(GRAD, ("log_prob", "t"), ("y_grad",)),
            *TRAIN.nodes[3:],
        ),
        inputs=(TRAIN.inputs[0], value("t", (2,), INT64), *TRAIN.inputs[2:]),
    ),
    arrays={"arr_0001": np.array([0, 3]), "mb1_arr_0001": np.array([1, 2])},
)
RELU = mlp(node("Relu", ("h",), ("y",)))
BAD = [np.nan, np.inf, -np.inf]
WILD_LABELS = [-1, -100, 4, 2**31 - 1]


def refused(case: Case, folder: Path, *texts: str) -> None:
    """A recorded case is not loaded, and the error has these texts."""
    program = case.program(folder)
    with pytest.raises(DatasetMismatch) as caught:
        load(case.dataset(folder), program)
    for text in (*texts, "try"):
        assert text in str(caught.value)


def not_built(folder: Path, *texts: str, model: Any = RELU, loss: str = "mse", **options: Any) -> None:
    """`train-graph` makes no case, and the error has these texts and does not blame the learning rate."""
    path = model.save(folder / "model.onnx")
    with pytest.raises(DatasetMismatch) as caught:
        build_train_graph(path, loss, "sgd", 0.01, "w1", folder, **options)
    for text in (*texts, "try"):
        assert text in str(caught.value)
    assert "learning rate" not in str(caught.value)
    assert not (folder / "model_train" / "network.onnx").exists()


@pytest.mark.parametrize("label", WILD_LABELS)
def test_labels_of_a_recorded_case(label: int, tmp_path: Path) -> None:
    """Without `ignore_index` there is no label that counts for nothing."""
    case = replace(CLASSES, arrays={**CLASSES.arrays, "mb1_arr_0001": np.array([0, label])})
    refused(case, tmp_path, f"label {label}", "sample 1 of 't'", "0 to 3")


@pytest.mark.parametrize("label", [*WILD_LABELS, 2**32, -(2**32) + 1])
def test_labels_of_a_new_case(label: int, tmp_path: Path) -> None:
    """`train-graph` says the same, also of a number that is a class once it is cut to 32 bits."""
    labels = np.array([[0, 3], [1, 2], [label, 0]])
    data = {"x": random(3, 2, 3), "labels": labels}
    shown = f"label {label}" if abs(label) < 2**31 else f"holds {label}"
    not_built(tmp_path, shown, "'labels'", loss="cross_entropy", data=data)
    if abs(label) < 2**31:
        not_built(tmp_path, "sample 2 of 'labels'", "0 to 3", loss="cross_entropy", data=data)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("key", "name", "at"),
    [("arr_0000", "x", (1, 2)), ("mb1_arr_0001", "t", (0, 3)), ("arr_0002", "w", (3, 0))],
)
def test_numbers_of_a_recorded_case(key: str, name: str, at: tuple[int, int], bad: float, tmp_path: Path) -> None:
    """Samples and initial weights, with the array and the index of the first."""
    folder = Case().dataset(tmp_path)
    with np.load(folder / "inputs.npz") as arrays:
        array = arrays[key].copy()
    array[at] = bad
    refused(Case(arrays={key: array}), tmp_path, "inputs.npz", f"'{key}', for '{name}'", f"{bad} at {list(at)}")


@pytest.mark.parametrize("bad", BAD)
def test_expected_numbers(bad: float, tmp_path: Path) -> None:
    """Losses and final weights that no run can reproduce."""
    losses, weights = np.zeros(4, np.float32), np.zeros((4, 3), np.float32)
    losses[2] = weights[1, 1] = bad
    refused(Case(gold={"loss": losses}), tmp_path, "outputs.npz", "'loss'", f"{bad} at [2]")
    refused(Case(gold={"w": weights}), tmp_path, "outputs.npz", "'w'", f"{bad} at [1, 1]")


@pytest.mark.parametrize("bad", BAD)
def test_numbers_of_a_new_case(bad: float, tmp_path: Path) -> None:
    """Data and initial weights; a constant that nobody trains may be infinite, and is named where the run diverges."""
    data = {"x": random(3, 2, 3), "target": random(3, 2, 4)}
    data["target"][2, 1, 3] = bad
    not_built(tmp_path, "'target'", f"{bad} at [2, 1, 3]", data=data)
    weights = random(4, 3)
    weights[0, 1] = bad
    shown = f"{bad} at [0, 1]"
    not_built(tmp_path, "'w1'", shown, model=mlp(node("Relu", ("h",), ("y",)), initializers={"w1": weights}))
    shift = random(4)
    shift[2] = bad
    frozen = mlp(node("Add", ("h", "shift"), ("y",)), initializers={"shift": shift})
    not_built(tmp_path, "'shift'", f"{bad} at [2]", model=frozen)


def test_data_beyond_float32(tmp_path: Path) -> None:
    """A float64 that float32 does not hold is not made infinite in silence."""
    data = {"x": random(3, 2, 3), "target": random(3, 2, 4).astype(np.float64)}
    data["target"][0, 1, 2] = 1e300
    not_built(tmp_path, "'target'", "1e+300", "beyond float32", data=data)


def test_an_infinite_constant_is_no_fault(tmp_path: Path) -> None:
    """Relu makes 0 of it, and the run stays finite."""
    nodes = node("Add", ("h", "shift"), ("s",)), node("Relu", ("s",), ("y",))
    model = mlp(*nodes, initializers={"shift": np.array([-np.inf, 0, 1, 0], np.float32)})
    report = build_train_graph(model.save(tmp_path / "model.onnx"), "mse", "sgd", 0.01, "w1", tmp_path)
    assert np.isfinite(report.losses).all()


FAR = float(2**70)
"""Its square is beyond float32."""


@pytest.mark.filterwarnings("error")
def test_a_run_that_diverges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first pass whose loss is no number any more is named, and the exit code is 1."""
    arrays: dict[str, object] = {"arr_0002": np.full((4, 3), 0.5, np.float32)}
    for prefix, size in (("", 1.0), ("mb1_", FAR)):
        arrays[f"{prefix}arr_0000"] = np.zeros((2, 3), np.float32)
        arrays[f"{prefix}arr_0001"] = np.full((2, 4), size, np.float32)
    case = Case(arrays=arrays)
    case.program(tmp_path)
    folder = case.dataset(tmp_path)
    for options in ((), ("--n-steps", 6)):
        assert deployer("train", "-t", folder, "-o", tmp_path / "c", *options) == 1
        faults = re.findall(r"^FAULT (.*)", capsys.readouterr().out, re.MULTILINE)
        assert faults[0] == "the run diverged in pass 1 and ended there: its loss is inf"
        recorded = json.loads((tmp_path / "c" / "report.json").read_text())
        assert recorded["faults"][0] == faults[0]
        assert len(recorded["losses"]) == 2  # it made no pass after that


def test_a_run_that_ends_too_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only a loss that is no number may end a run before its last pass."""
    folder, out = Case().dataset(tmp_path), tmp_path / "c"
    Case().program(tmp_path)
    assert deployer("compile", "-t", folder, "-o", out, "--n-steps", 6) == 0
    text = (out / "Harness.c").read_text()
    assert text.count("passes < PASSES") == 1
    (out / "Harness.c").write_text(text.replace("passes < PASSES", "passes < 4u"))
    assert deployer("train", "-t", folder, "-o", out, "--n-steps", 6, "--skipgen") == 70
    assert "ended after 4 of 6 passes, though its loss is finite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ((1.0, np.nan, np.inf), ("the run diverged in pass 1 and ended there: its loss is nan",)),
        ((-np.inf,), ("the run diverged in pass 0 and ended there: its loss is -inf",)),
        ((1.0, 3e38), ()),
        ((), ()),
    ],
)
def test_divergence(losses: tuple[float, ...], said: tuple[str, ...]) -> None:
    """The first loss that is no finite number, whatever is expected."""
    assert Outcome("", losses, {}, {}, 0).divergence == said


def test_a_new_case_beyond_float32(tmp_path: Path) -> None:
    """A loss that only float64 holds diverges as well: no case is written that nobody can compare."""
    data = {"x": random(1, 2, 3), "target": np.full((1, 2, 4), FAR, np.float32)}
    path = RELU.save(tmp_path / "model.onnx")
    with pytest.raises(DatasetMismatch, match="diverges in pass 0"):
        build_train_graph(path, "mse", "sgd", 0.01, "w1", tmp_path, data=data)
