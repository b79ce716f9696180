"""History of a run: metrics, epochs and their records."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.ir import Node, TensorRecord, TensorType
from deployer.core.operator import Array, numerics_of, operator_of
from deployer.core.traits.training import Loss
from deployer.fitting.verdicts import FitChecks
from deployer.training.order import Samples
from deployer.training.problem import TrainGraph
from deployer.training.tables import Taken

# Results of each epoch, one row each, as a CSV table.


@dataclass(frozen=True)
class EpochRow:
    """An epoch, counted from 1: passes made by its end, the mean loss of its passes, the rate, and the validation.

    `metrics` has the validation's loss and what else is measured, by name.
    """

    epoch: int
    passes: int
    loss: float
    rate: float
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The row in one line for a person."""
        shown = "".join(f"  validation {name} {value:.4g}" for name, value in self.metrics.items())
        return f"epoch {self.epoch}: loss {self.loss:.5g}{shown}"


@dataclass(frozen=True)
class FitReport:
    """Content of report.json, for other programs; NaN and infinities are stored as text.

    `verdict` and the numbers that it rests on (`checks`), `faults`, `notes`; `passes` made, why the run `ended` before
    its last (empty where it did not), the epoch with the best monitored metric (0: none has ended), a row per epoch,
    the names of the labels from 0 on, where the samples have some, and what was taken of the samples, `validation` of
    others; `tensors` as in `Fitted`.
    """

    verdict: str
    checks: FitChecks
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    passes: int
    ended: str
    best_epoch: int
    epochs: tuple[EpochRow, ...]
    classes: tuple[str, ...]
    data: Taken | None
    validation: Taken | None
    tensors: tuple[TensorRecord, ...] = ()


def history_csv(rows: Sequence[EpochRow]) -> str:
    """The rows as CSV with a heading; numbers have as many digits as bring them back exactly."""
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["epoch", "passes", "loss", "learning_rate", *(f"validation_{name}" for name in names)])
    for row in rows:
        values = [repr(row.metrics[name]) if name in row.metrics else "" for name in names]
        table.writerow([row.epoch, row.passes, repr(row.loss), repr(row.rate), *values])
    return text.getvalue()


def mean_loss(losses: Array) -> float:
    """The mean of the losses of some passes, in float64."""
    return float(losses.astype("float64").mean()) if losses.size else float("nan")


# Metrics of held-out samples: the loss by its float64 reference, and the accuracy of scores.

CHUNK_BYTES = 1 << 25
"""Bytes of held-out samples that lie in memory at a time."""
LOSS, ACCURACY, ERROR = "loss", "accuracy", "mean_absolute_error"
Forward = Callable[[list[tuple[Array, ...]]], Array]
"""From batches of the model's inputs to its outputs, batches along the first axis."""


@dataclass(frozen=True)
class Metrics:
    """The metrics of a training problem: its loss and, for labels, accuracy and `top` best scores, else the error."""

    node: Node | None
    output: str
    target: str
    constants: Mapping[str, Array]
    class_axis: int | None
    ignored: int | None = None
    top: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        if self.node is None:
            return (LOSS,)
        return (LOSS, ERROR) if self.class_axis is None else (LOSS, ACCURACY, *(f"top_{k}" for k in self.top))

    @property
    def larger_is_better(self) -> frozenset[str]:
        """The metrics of which more is better."""
        return frozenset({ACCURACY, *(f"top_{k}" for k in self.top)})

    def of(self, samples: Samples, forward: Forward) -> dict[str, float]:
        """The metrics over all samples, as if these were one batch; what fills up the last batch does not count."""
        names, outputs, labels = list(samples.types), list[Array](), list[Array]()
        for parts in _chunks(samples.in_order()):
            inputs = [tuple(v for n, v in zip(names, part, strict=True) if n != self.target) for part in parts]
            outputs.append(forward(inputs))
            labels += [part[names.index(self.target)] for part in parts if self.target]
        scores, count = np.concatenate(outputs), samples.count
        filled = len(scores) * samples.batch
        if self.node is None:
            return {LOSS: mean_loss(scores.reshape(len(scores), -1))}
        rows = _joined(scores)
        targets = _joined(np.stack(labels))
        kept = len(rows) * count // filled
        return self._values(rows[:kept], targets[: len(targets) * count // filled])

    def _values(self, scores: Array, targets: Array) -> dict[str, float]:
        assert self.node is not None
        operands = {self.output: scores.astype(np.float64), self.target: targets, **self.constants}
        values = [operands[name] if name else None for name in self.node.inputs]
        found = {LOSS: float(np.asarray(operator_of(self.node).reference(self.node, values)[0]).reshape(-1)[0])}
        if self.class_axis is None:
            return found | {ERROR: float(np.abs(scores.astype(np.float64) - targets).mean())}
        counted = np.ones(targets.shape, bool) if self.ignored is None else targets != self.ignored
        ranks = _ranks(np.moveaxis(scores, self.class_axis, -1), targets)[counted]
        found[ACCURACY] = float((ranks < 1).mean()) if ranks.size else 0.0
        return found | {f"top_{k}": float((ranks < k).mean()) if ranks.size else 0.0 for k in self.top}


def metrics_of(graph: TrainGraph, top: tuple[int, ...] = ()) -> Metrics:
    """The metrics of a training graph."""
    loss = graph.scored or graph.loss
    if not loss.nodes:
        return Metrics(None, graph.model.output, "", {}, None)
    node = loss.nodes[0]
    declared = operator_of(node).role(Loss)
    assert declared is not None, f"{node.op} is not a loss"
    ignored = _ignored(node) if declared.class_axis is not None else None
    return Metrics(node, node.inputs[0], node.inputs[1], loss.constants, declared.class_axis, ignored, top)


def _ignored(node: Node) -> int | None:
    """The label that does not count, as the loss says it for any number of classes."""
    many = {node.inputs[0]: TensorType("float32", (1, 1)), node.inputs[1]: TensorType("int32", (1,))}
    indices = numerics_of(node).indices(node, many)
    return indices.ignored if indices else None


def _chunks(parts: Iterator[tuple[Array, ...]]) -> Iterator[list[tuple[Array, ...]]]:
    """The batches in lists of at most CHUNK_BYTES, or of one."""
    chunk, size = list[tuple[Array, ...]](), 0
    for part in parts:
        each = sum(array.nbytes for array in part)
        if chunk and size + each > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(part)
        size += each
    if chunk:
        yield chunk


def _joined(batches: Array) -> Array:
    """Batches behind one another: the first two axes as one."""
    return batches.reshape(-1, *batches.shape[2:]) if batches.ndim > 1 else batches


def _ranks(scores: Array, labels: Array) -> Array:
    """Return the rank of each label: the number of classes with a larger score, or an equal one and a smaller index.

    A score that is no number is right for no label.
    """
    usable = np.clip(labels, 0, scores.shape[-1] - 1)
    own = np.take_along_axis(scores, usable[..., None], -1)
    earlier = np.arange(scores.shape[-1]) < usable[..., None]
    before: Array = (scores > own) | ((scores == own) & earlier) | np.isnan(scores) | np.isnan(own)
    return np.asarray(before.sum(-1))
