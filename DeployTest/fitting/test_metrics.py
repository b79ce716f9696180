"""Metrics of outputs that are known, by their definitions; what cannot be measured; metrics of whole runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array, losses
from deployer.core.traits.training import Loss
from deployer.fitting.history import ACCURACY, ERROR, LOSS, EpochRow, history_of, is_better
from deployer.fitting.metrics import Measurements, MetricSpecs, metric_name, metrics_of, read_metrics
from deployer.fitting.task import Task
from deployer.operators.loss.label_loss import IGNORED
from deployer.training.order import Samples
from DeployTest.fitting.runs import BATCH, small_data, small_fit, small_model

pytestmark = [pytest.mark.host, pytest.mark.training]

SCORES = np.array([[3, 1, 0], [0, 2, 1], [0, 1, 4], [1, 0, 0], [0, 5, 0], [0, 0, 1]], np.float32)
LABELS = np.array([0, 0, -1, -1, 1, 2])


@pytest.mark.parametrize(
    "name", [name for name, op in losses().items() if (loss := op.role(Loss)) and IGNORED in loss.settings]
)
@pytest.mark.parametrize("weights", [(), (1.0, 1.0, 1.0)])
def test_ignored_labels_do_not_count(name: str, weights: tuple[float, ...], tmp_path: Path) -> None:
    """Three of four labels are found; the second is among the best three alone. The fill of the last batch is none."""
    task = Task(loss=name, optimizer="sgd", settings={"ignore-index": -1}, class_weights=weights)
    graph = task.problem(small_model(tmp_path), 0, lambda warning: None).graph
    samples = Samples(graph.data, {"input": np.zeros((6, 6), np.float32), "labels": LABELS}, BATCH)
    rows = SCORES.take(np.arange(2 * BATCH), axis=0, mode="wrap").reshape(2, BATCH, 3)
    asked = read_metrics(["precision", "recall", "f1", "confusion_matrix"], (2, 3))
    measured = metrics_of(graph, asked).of(samples, lambda batches: rows)
    found = dict(measured.values)
    assert np.isfinite(found.pop(LOSS))
    expected = {ACCURACY: 3 / 4, "top_2": 3 / 4, "top_3": 1.0}
    expected |= {"precision": (1 + 1 / 2 + 1) / 3, "recall": (1 / 2 + 1 + 1) / 3, "f1": (2 / 3 + 2 / 3 + 1) / 3}
    assert found == pytest.approx(expected, rel=1e-15)
    assert measured.confusion_matrix == ((1, 1, 0), (0, 1, 0), (0, 0, 1))
    assert measured.per_class["recall"] == (1 / 2, 1, 1)


def compared(loss: str, outputs: Array, targets: Array, metrics: MetricSpecs, folder: Path) -> Measurements:
    """The metrics of outputs for a loss by name."""
    graph = Task(loss=loss, optimizer="sgd").problem(small_model(folder), 0, lambda warning: None).graph
    return metrics_of(graph, read_metrics(metrics)).compare(outputs, targets)


def by_counting(predicted: list[int], labels: list[int], classes: int) -> dict[str, list[float]]:
    """Precision, recall and F1 of each class, by their definitions; NaN for a class that occurs nowhere."""
    table: dict[str, list[float]] = {"precision": [], "recall": [], "f1": []}
    for c in range(classes):
        pairs = list(zip(predicted, labels, strict=True))
        hit = sum(p == c and q == c for p, q in pairs)
        false, missed = sum(p == c != q for p, q in pairs), sum(q == c != p for p, q in pairs)
        none = not (hit or false or missed)
        precision = hit / (hit + false) if hit + false else 0.0
        recall = hit / (hit + missed) if hit + missed else 0.0
        f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
        for name, value in (("precision", precision), ("recall", recall), ("f1", f1)):
            table[name].append(math.nan if none else value)
    return table


@pytest.mark.parametrize(
    ("predicted", "labels"),
    [
        ([0, 1, 2, 2, 0, 1, 2], [0, 2, 2, 1, 0, 1, 2]),
        ([0, 1, 1, 0], [0, 1, 0, 0]),
        ([0, 2, 2, 0], [0, 1, 1, 0]),
        ([1, 1, 1], [1, 1, 1]),
        ([0, 0, 0], [2, 2, 2]),
    ],
    ids=["all classes", "class 2 absent", "class 1 never predicted, 2 without labels", "one class", "none right"],
)
def test_metrics_of_classes(predicted: list[int], labels: list[int], tmp_path: Path) -> None:
    """Each class by its definition; the mean is that over the classes that occur."""
    scores, names = np.eye(3, dtype=np.float32)[predicted], ["precision", "recall", "f1", "confusion_matrix"]
    found = compared("cross_entropy", scores, np.array(labels), names, tmp_path)
    for name, values in by_counting(predicted, labels, 3).items():
        assert found.per_class[name] == pytest.approx(values, rel=1e-15, nan_ok=True), name
        seen = [value for value in values if not math.isnan(value)]
        assert found.values[name] == pytest.approx(sum(seen) / len(seen), rel=1e-15), name
    pairs = list(zip(labels, predicted, strict=True))
    assert found.confusion_matrix == tuple(tuple(pairs.count((q, p)) for p in range(3)) for q in range(3))


def test_ties_of_scores(tmp_path: Path) -> None:
    """Of equal scores the class of smaller index is first, for accuracy, top-k and the predicted class alike."""
    scores = np.array([[1, 1, 1]] * 3, np.float32)
    found = compared("cross_entropy", scores, np.arange(3), ["top_1", "top_2", "top3", "confusion_matrix"], tmp_path)
    values = {name: value for name, value in found.values.items() if name != LOSS}
    assert values == {ACCURACY: 1 / 3, "top_1": 1 / 3, "top_2": 2 / 3, "top_3": 1.0}
    assert found.confusion_matrix == ((1, 0, 0),) * 3


def test_scores_without_a_number(tmp_path: Path) -> None:
    """A sample with NaN has no predicted class: it lowers accuracy and recall, and is in no cell of the matrix."""
    scores = np.array([[math.nan, 5, 0], [0, 5, 0]], np.float32)
    found = compared("cross_entropy", scores, np.array([1, 1]), ["recall", "confusion_matrix"], tmp_path)
    assert (found.values[ACCURACY], found.per_class["recall"][1]) == (0.5, 0.5)
    assert found.confusion_matrix[1] == (0, 1, 0)


def test_metrics_of_values(tmp_path: Path) -> None:
    """MAE, RMSE, and R2 as the mean over the elements of an output."""
    truth = np.array([[1, 0, 2], [2, 1, 2], [3, 0, 2], [6, 3, 2]], np.float32)
    outputs = np.array([[1, 1, 2], [1, 1, 2], [5, 1, 2], [6, 1, 2]], np.float32)
    found = compared("mse", outputs, truth, ["mae", "rmse", "r2"], tmp_path).values
    first, second = 1 - (1 + 4) / (4 + 1 + 0 + 9), 1 - (1 + 0 + 1 + 4) / (1 + 0 + 1 + 4)
    expected = {ERROR: (3 + 4) / 12, "rmse": math.sqrt((5 + 6) / 12), "r2": (first + second + 1) / 3}
    assert {n: found[n] for n in expected} == pytest.approx(expected, rel=1e-15)
    flat = np.full((2, 3), 2, np.float32)
    assert compared("mse", flat + 1, flat, "r2", tmp_path).values["r2"] == 0.0
    assert math.isnan(compared("mse", flat[:1], flat[:1], "r2", tmp_path).values["r2"])


def largest_error(outputs: Array, targets: Array) -> Any:
    """A metric of a user."""
    return np.abs(outputs - targets).max()


def test_functions(tmp_path: Path) -> None:
    """A function by its own name, another by a name that is given; what they return has to be a number."""
    outputs, targets = np.array([[1, 2, 3]], np.float32), np.array([[1, 0, 3]], np.float32)
    assert compared("mse", outputs, targets, largest_error, tmp_path).values["largest_error"] == 2
    found = compared("mse", outputs, targets, {"mean": lambda a, b: float(a.mean())}, tmp_path).values
    assert list(found) == [LOSS, ERROR, "mean"]
    with pytest.raises(OptionProblem, match="'mean' does not return a number"):
        compared("mse", outputs, targets, {"mean": lambda a, b: a}, tmp_path)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("acuracy", "did you mean accuracy"),
        (["speed"], r"there is no metric 'speed'[\s\S]*top_K"),
        (["top_0"], "there is no metric 'top_0'"),
        ({"f1": largest_error}, r"'f1' is there already[\s\S]*'f1' alone"),
        ({"a b": largest_error}, "needs a name"),
        ([3], "is a int, neither a name nor a function"),
        ({"f2": "f1"}, "'f2' is a str"),
    ],
)
def test_unknown_metrics(given: Any, word: str) -> None:
    """They are refused with what is meant."""
    with pytest.raises(OptionProblem, match=word):
        read_metrics(given)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"metrics": "rmse"}, r"'rmse': it compares floats[\s\S]*accuracy, precision"),
        ({"metrics": "f1", "validation": None, "train_metrics": False}, "nothing measures 'f1'"),
        ({"monitor": "f1"}, "nothing measures 'f1'"),
        ({"monitor": "confusion_matrix", "metrics": "confusion_matrix"}, "nothing measures 'confusion_matrix'"),
        ({"monitor": "largest_error", "metrics": largest_error}, "whether more of it is better"),
        ({"monitor_mode": "max"}, "of 'loss' min is better"),
        ({"monitor_mode": "up"}, "one of min, max"),
    ],
)
def test_metrics_without_meaning(more: dict[str, Any], word: str, tmp_path: Path) -> None:
    """They are refused before anything is compiled, with what can be measured."""
    model = small_model(tmp_path)
    with pytest.raises(OptionProblem, match=word):
        small_fit(tmp_path / "run", model, **{"validation": small_data(), **more})
    assert not (tmp_path / "run").exists()


def test_training_beside_validation(tmp_path: Path) -> None:
    """The same metrics of the training samples; validation by the same samples has the same values."""
    more: dict[str, Any] = {"metrics": ["f1", "confusion_matrix"], "train_metrics": True, "epochs": 2}
    model = small_model(tmp_path)
    both = small_fit(tmp_path / "both", model, validation=small_data(), **more)
    for row in both.rows:
        assert row.train_metrics == row.metrics
        assert list(row.metrics) == [LOSS, ACCURACY, "f1"]
        assert sum(map(sum, row.confusion_matrix)) == 13
        assert sum(row.confusion_matrix[i][i] for i in range(3)) / 13 == row.metrics[ACCURACY]
    head = (tmp_path / "both" / "history.csv").read_text().splitlines()[0]
    names = [f"{of}_{name}" for of in ("training", "validation") for name in (LOSS, ACCURACY, "f1")]
    assert head == ",".join(["epoch", "passes", "loss", "learning_rate", *names])
    alone = small_fit(tmp_path / "alone", model, **more)
    assert [row.train_metrics for row in alone.rows] == [row.train_metrics for row in both.rows]
    assert alone.losses == both.losses
    assert not any(row.metrics for row in alone.rows)
    assert alone.rows[-1].confusion_matrix == both.rows[-1].confusion_matrix


def test_monitored_function(tmp_path: Path) -> None:
    """The best epoch is the one with the largest value, where larger is better, and training has those weights."""
    values, model = iter([1.0, 3.0, math.nan, 2.0, 2.0]), small_model(tmp_path)
    options: dict[str, Any] = {"validation": small_data(), "epochs": 9, "monitor": "acc", "monitor_mode": "max"}
    options |= {"metrics": {"acc": lambda a, b: next(values)}, "patience": 3, "restore_best": True}
    options |= {"train_metrics": False}  # which would ask for values, too
    fitted = small_fit(tmp_path / "run", model, **options)
    assert (fitted.best_epoch, len(fitted.rows), fitted.ended) == (2, 5, "patience")
    assert ", best epoch 2, ended: patience>" in repr(fitted)
    whole = small_fit(tmp_path / "two", model, epochs=2)
    for name, array in fitted.weights.items():
        assert array.tobytes() == whole.weights[name].tobytes(), name
    assert (tmp_path / "run/trained.npz").read_bytes() == (tmp_path / "two/trained.npz").read_bytes()
    said = "validation acc is 2, the best one, 3, is of epoch 2 (patience 3)"
    assert f"early stopping after epoch 5: {said}" in fitted.notes
    assert "the trained weights are those of epoch 2, with the best validation acc, 3" in fitted.notes


def test_better() -> None:
    """Every number is better than NaN, and the first value than none."""
    nan = math.nan
    cases = [(1.0, None, False), (nan, None, False), (1.0, nan, True), (nan, nan, True), (nan, 1.0, False)]
    assert [is_better(*case) for case in cases] == [True, True, True, False, False]
    assert [is_better(2.0, 1.0, rising) for rising in (False, True)] == [False, True]


WRITTEN = {
    "mae": ERROR,
    "MAE": ERROR,
    "mse": "mean_squared_error",
    "acc": ACCURACY,
    "Accuracy": ACCURACY,
    "sparse_categorical_accuracy": ACCURACY,
    "F1": "f1",
    "f1-score": "f1",
    "RMSE": "rmse",
    "R2": "r2",
    "top5": "top_5",
    "top_5_accuracy": "top_5",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_names_as_people_write_them(text: str) -> None:
    """Each means the metric of its name, also as a column of a history, of either samples."""
    name = WRITTEN[text]
    assert metric_name(text) == name
    row = EpochRow(1, 4, 0.5, 0.1, {"loss": 0.25, name: 1.0}, {name: 2.0})
    history = history_of([row])
    assert history[f"val_{text}"] == history[f"valid_{text}"] == [1.0]
    assert history[text] == history[f"train_{text}"] == [2.0]
    assert (history["val_loss"], history["train_loss"], history["lr"]) == ([0.25], [0.5], [0.1])
