"""Metrics of scores that are known: how often they are right among the labels that count."""

from pathlib import Path

import numpy as np
import pytest

from deployer.core.operator import losses
from deployer.core.traits.training import Loss
from deployer.fitting.history import ACCURACY, LOSS, metrics_of
from deployer.fitting.task import Task
from deployer.operators.loss.label_loss import IGNORED
from deployer.training.order import Samples
from DeployTest.fitting.runs import BATCH, small_model

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
    found = metrics_of(graph, (2, 3)).of(samples, lambda batches: rows)
    assert {n: value for n, value in found.items() if n != LOSS} == {ACCURACY: 0.75, "top_2": 0.75, "top_3": 1.0}
    assert np.isfinite(found[LOSS])
