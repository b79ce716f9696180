"""Windows of passes: what an update takes of them, labels that do not count, and what is left at the end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer import pipeline
from deployer.lr_schedules.windows import mean_shares
from deployer.training.samples import write_npz
from deployer.training.train_graph import build_train_graph
from deployer.verify.reference import run_training
from DeployTest.models.parts.dense import dense
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.built_cases import opened
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
Array = np.ndarray[Any, Any]
WIDTHS, LAYERS, IGNORED, PASSES, RATE = (6, 5, 4), ("fc1", "fc2"), -1, 7, 0.25
WEIGHTS = (0.5, 1.0, 2.0, 1.5)
LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "ignored": {"settings": {"ignore-index": IGNORED}},
    "weights": {"class_weights": WEIGHTS},
    "all": {"settings": {"ignore-index": IGNORED, "label-smoothing": 0.125}, "class_weights": WEIGHTS},
}


def _samples(ignored: bool) -> dict[str, Array]:
    """Batches of three rows; of some labels do not count, of each batch at least one does."""
    r = np.random.default_rng(3)
    labels = r.integers(0, WIDTHS[-1], (PASSES, 3))
    if ignored:
        labels[0, 1:], labels[2, 0], labels[5, 2], labels[6, :2] = IGNORED, IGNORED, IGNORED, IGNORED
    return {"input": r.standard_normal((PASSES, 3, WIDTHS[0])).astype(np.float32), "labels": labels}


def _trained(folder: Path, data: Mapping[str, Array], options: Mapping[str, Any], **more: Any) -> dict[str, Array]:
    """The final weights of the float64 reference, by the model's names, for batches of that many rows."""
    model = dense(folder / "net.onnx", WIDTHS, LAYERS, data["input"].shape[1], 0, relu=True)
    report = build_train_graph(model, "cross_entropy", "sgd", RATE, "", folder, data=data, **options, **more)
    weights = run_training(*opened(report.train), np.float64)[1]
    return {name: weights[graph_name] for graph_name, name in report.trained.items()}


def _joined(data: Mapping[str, Array], accum: int) -> list[dict[str, Array]]:
    """The batches that the windows are, the last of what is left."""
    return [
        {name: np.concatenate(list(array[at : at + accum]))[None] for name, array in data.items()}
        for at in range(0, PASSES, accum)
    ]


@pytest.mark.parametrize("name", LOSSES)
def test_mean_is_the_joined_batch(name: str, tmp_path: Path) -> None:
    """An update by the mean over its passes is that of their samples in one batch, whatever counts in each."""
    options, accum = LOSSES[name], 7
    data = _samples("settings" in options)
    ours = _trained(tmp_path / "mean", data, options, mean=True, n_accum=accum)
    due = _trained(tmp_path / "batch", _joined(data, accum)[0], options)
    for weight, array in ours.items():
        assert_close(weight, array, due[weight])
    plain = _trained(tmp_path / "sum", data, options, n_accum=accum)
    assert any(np.abs(plain[weight] - due[weight]).max() > 0.01 for weight in due), "the sum is another update"


def _by_torch(
    start: Mapping[str, Array], data: Mapping[str, Array], name: str, accum: int, mean: bool
) -> dict[str, Array]:
    """PyTorch's weights after SGD in float64: the loss of joined batches, or the sum of the batches' own losses."""
    import torch

    options = LOSSES[name]
    given = options.get("settings", {})
    words: dict[str, Any] = {"ignore_index": int(given.get("ignore-index", -100))}
    words["label_smoothing"] = given.get("label-smoothing", 0.0)
    words["weight"] = torch.tensor(WEIGHTS, dtype=torch.float64) if "class_weights" in options else None
    weights = {n: torch.tensor(a.astype(np.float64), requires_grad=True) for n, a in start.items()}
    optimizer = torch.optim.SGD(list(weights.values()), RATE)

    def loss(x: Array, labels: Array) -> Any:
        hidden = torch.relu(torch.tensor(x, dtype=torch.float64) @ weights["fc1.weight"].T + weights["fc1.bias"])
        scores = hidden @ weights["fc2.weight"].T + weights["fc2.bias"]
        return torch.nn.functional.cross_entropy(scores, torch.tensor(labels), **words)

    for at in range(0, PASSES, accum):
        x, labels = data["input"][at : at + accum], data["labels"][at : at + accum]
        optimizer.zero_grad()
        if mean:
            loss(np.concatenate(list(x)), np.concatenate(list(labels))).backward()
        else:
            sum(loss(*pair) for pair in zip(x, labels, strict=True)).backward()
        optimizer.step()
    return {n: w.detach().numpy() for n, w in weights.items()}


@pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.torch
def test_windows_are_pytorchs(name: str, mean: bool, tmp_path: Path) -> None:
    """Three updates of three, three and one pass: sums and means, labels that do not count, and what is left."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    data = _samples("settings" in LOSSES[name])
    ours = _trained(tmp_path, data, LOSSES[name], mean=mean, n_accum=3, n_batches=PASSES, flush=True)
    train = next(tmp_path.glob("*_train"))
    _, dataset = opened(train)
    start = {n.replace("_", "."): a for n, a in dataset.weights.items()}
    due = _by_torch(start, data, name, 3, mean)
    for weight, array in ours.items():
        assert_close(weight, array, due[weight])


def test_shares() -> None:
    """Counts over those of the update; what is left is an update of its own."""
    assert mean_shares([1, 3, None], 5, 2) == (0.25, 0.75, 0.5, 0.5, 1.0)
    assert mean_shares([2, 6], 5, 4) == (0.125, 0.375, 0.125, 0.375, 1.0)


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program with shares, rates and an update of what is left is right from each of its states; options of a run
    change the windows of a case.
    """
    model = dense(tmp_path / "net.onnx", WIDTHS, LAYERS, 3, 0, relu=True)
    write_npz(tmp_path / "data.npz", _samples(ignored=True))
    words = (
        "--loss",
        "cross_entropy",
        "--ignore-index",
        str(IGNORED),
        "--optimizer",
        "adamw",
        "--data",
        tmp_path / "data.npz",
    )
    words = (*words, "--optimizer", "adamw", "--accumulate", "mean", "--accumulate-grad-batches", "3")
    words = (*words, "--partial-accumulation", "apply", "--lr-scheduler", "cosine")
    assert deployer("train-graph", model, *words, "-o", tmp_path) == 0
    run = ("train", "-t", tmp_path / "net_train", "-o", tmp_path / "out")
    assert deployer(*run) == 0
    said = capsys.readouterr().out
    assert "the last 1 of 7 passes are an update of their own" in said
    assert "set at run time for each of 3 updates" in said
    assert "accumulation: mean over the passes" in said
    assert "3 updates of 3 passes each, the last of 1" in (tmp_path / "out" / "Harness.c").read_text()
    recorded = pipeline.load_training(tmp_path / "net_train")
    assert recorded.dataset is not None
    assert recorded.dataset.shares[:3] == (1 / 6, 3 / 6, 2 / 6)
    other = pipeline.load_training(tmp_path / "net_train", n_accum=2, flush=False, n_steps=5)
    assert other.dataset is not None
    assert other.dataset.shares == (0.25, 0.75, 0.4, 0.6, 1.0)
    assert [note for note in other.notes if "the last 1 of 5 passes are in no update" in note]


def test_nothing_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample of which no label counts is refused by its number; its loss would be 0 / 0."""
    model = dense(tmp_path / "net.onnx", WIDTHS, LAYERS, 3, 0, relu=True)
    data = _samples(ignored=True)
    data["labels"][4] = IGNORED
    write_npz(tmp_path / "data.npz", data)
    words = ("--loss", "cross_entropy", "--ignore-index", str(IGNORED), "--data", tmp_path / "data.npz", "-o", tmp_path)
    said = refused(capsys, "train-graph", model, *words)
    assert "sample 4 has no counted label" in said
