"""History of a run: epochs and their records."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deployer.core.ir import TensorRecord
from deployer.core.operator import Array
from deployer.fitting.verdicts import FitChecks
from deployer.reports.confusion import Confusion
from deployer.reports.facts import RunFacts
from deployer.reports.run_page import Figures
from deployer.training.tables import Taken

LOSS, ACCURACY, ERROR = "loss", "accuracy", "mean_absolute_error"
VALIDATED, TRAINED = ("val_", "valid_", "validation_"), ("train_", "training_")
"""What stands before the name of a metric of the validation samples, and of the training samples."""
COLUMNS = {"lr": "learning_rate", "rate": "learning_rate", "epochs": "epoch", "steps": "passes", "step": "passes"}
"""Other names of columns."""
EXPLODED = 1e6
"""A loss of so many times the first one is reported."""

# Results of each epoch, one row each, as a CSV table.


@dataclass(frozen=True)
class EpochRow:
    """An epoch, counted from 1: passes made by its end, the mean loss of its passes, the rate, and the metrics.

    `metrics` are those of the validation samples by name, `train_metrics` those of the training samples, if asked for,
    with the weights at the end of the epoch. `per_class` has a number per class, and `confusion_matrix` a row per label
    with the number of predictions of each class: those of the validation samples, without them of the training samples.
    """

    epoch: int
    passes: int
    loss: float
    rate: float
    metrics: dict[str, float] = field(default_factory=dict)
    train_metrics: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, tuple[float, ...]] = field(default_factory=dict)
    confusion_matrix: tuple[tuple[int, ...], ...] = ()

    @property
    def text(self) -> str:
        """The row in one line for a person."""
        shown = "".join(f"  {name} {value:.4g}" for name, value in self.named_metrics.items())
        return f"epoch {self.epoch}: loss {self.loss:.5g}{shown.replace('_', ' ')}"

    @property
    def named_metrics(self) -> dict[str, float]:
        """All metrics, with the samples that they are of before each name."""
        training = {f"training_{name}": value for name, value in self.train_metrics.items()}
        return training | {f"validation_{name}": value for name, value in self.metrics.items()}


@dataclass(frozen=True)
class ReplayRecord:
    """Latents of a run: the type of each for one sample by name, and their bytes for one sample and in all.

    `bytes` are those of all samples that are trained on or measured. The frozen part has `frozen_steps` of the `steps`
    of a pass, before rewrites, and `end` says why it has no more of them.
    """

    latents: dict[str, str]
    sample_bytes: int
    bytes: int
    frozen_steps: int
    steps: int
    end: str

    @property
    def text(self) -> str:
        """The record in one line."""
        named = ", ".join(f"{name} {kind}" for name, kind in self.latents.items())
        steps = f"{self.frozen_steps} of {self.steps} steps run once for each sample, as {self.end}"
        return f"latent replay: {steps}; latents {named}: {self.sample_bytes} B a sample, {self.bytes} B in all"


@dataclass(frozen=True)
class FitReport:
    """Content of report.json, for other programs; NaN and infinities are stored as text.

    `verdict` and the numbers that it rests on (`checks`), `faults`, `notes`; `passes` made, why the run `ended` before
    its last (empty where it did not), the epoch with the best monitored metric (0: none has ended), a row per epoch,
    the names of the labels from 0 on, where the samples have some, and what was taken of the samples, `validation` of
    others; `tensors` as in `Fitted`. `losses` are those of the passes, `about` says what was trained on what,
    `confusion` counts predictions by the final weights on the validation samples, `figures` are what the pictures of
    the plan show, and `replay` says what was kept of frozen layers, if it was.
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
    losses: tuple[float, ...] = ()
    about: RunFacts = field(default_factory=RunFacts)
    confusion: Confusion | None = None
    figures: Figures | None = None
    replay: ReplayRecord | None = None


Value = TypeVar("Value")


class ByName(dict[str, Value]):
    """Values by the names of columns, and by other ways in which these are written.

    `val_loss` is that of the validation samples, `accuracy` that of the training samples where it is measured, `acc` is
    `accuracy`, `train_loss` is `loss`, `lr` is `learning_rate`, and metrics have all their names.
    """

    def found(self, name: str) -> str:
        """The column that is meant by a name; empty where there is none."""
        from deployer.fitting.metrics import plain_name

        prefix = next((p for p in (*VALIDATED, *TRAINED) if name.startswith(p)), "")
        metric = name.removeprefix(prefix)
        known = [name]
        for word in (metric, plain_name(metric)):
            known += [f"{p}{word}" for p in VALIDATED] if prefix in VALIDATED else [COLUMNS.get(word, word)]
            known += [] if prefix in VALIDATED else [f"{p}{word}" for p in TRAINED]
        return next((column for column in known if dict.__contains__(self, column)), "")

    def __contains__(self, name: object) -> bool:
        """Whether a column is meant by it."""
        return isinstance(name, str) and bool(self.found(name))

    def get(self, name: str, default: Any = None) -> Any:
        """The value by any of its names."""
        column = self.found(name)
        return self[column] if column else default

    def __missing__(self, name: str) -> Value:
        """The value by another name; KeyError with the names that there are."""
        from deployer.fitting.metrics import plain_name

        column = self.found(name)
        if column:
            return self[column]
        more = "validation=... or train_metrics=True measure more"
        metric = plain_name(name)
        if not name.startswith(VALIDATED) and f"val_{metric}" in self:
            more = f"'val_{metric}' is that of the validation samples, train_metrics=True measures it in training, too"
        raise KeyError(f"{name!r} is not in the history, which has {', '.join(self)}; {more}")


class History(ByName[list[float]]):
    """A list for each column of `history.csv`, also by other names of it."""

    @property
    def history(self) -> "History":
        """The columns themselves, as Keras has them."""
        return self


def logs_of(row: EpochRow) -> ByName[float]:
    """The numbers of a row by the names that Keras's logs have."""
    own = {name: value for name, value in row.train_metrics.items() if name != LOSS}
    validated = {f"val_{name}": value for name, value in row.metrics.items()}
    return ByName({LOSS: row.loss, **own, **validated, "learning_rate": row.rate})


def history_of(rows: Sequence[EpochRow]) -> History:
    """The numbers of all rows by the columns of `history.csv`."""
    names = list(dict.fromkeys(name for row in rows for name in row.named_metrics))
    found = History(
        epoch=[row.epoch for row in rows],
        passes=[row.passes for row in rows],
        loss=[row.loss for row in rows],
        learning_rate=[row.rate for row in rows],
    )
    found.update({name: [row.named_metrics.get(name, math.nan) for row in rows] for name in names})
    return found


def history_csv(rows: Sequence[EpochRow]) -> str:
    """The rows as CSV with a heading; numbers have as many digits as bring them back exactly."""
    names = list(dict.fromkeys(name for row in rows for name in row.named_metrics))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["epoch", "passes", "loss", "learning_rate", *names])
    for row in rows:
        found = row.named_metrics
        values = [repr(found[name]) if name in found else "" for name in names]
        table.writerow([row.epoch, row.passes, repr(row.loss), repr(row.rate), *values])
    return text.getvalue()


def mean_loss(losses: Array) -> float:
    """The mean of the losses of some passes, in float64."""
    return float(losses.astype("float64").mean()) if losses.size else float("nan")


def exploded(losses: Array) -> str:
    """The first pass whose loss is far above the first loss of the run, in a sentence; empty where there is none."""
    wide = abs(losses.astype("float64"))
    [far] = (wide > EXPLODED * wide[:1]).nonzero()
    if not far.size or not wide[0]:
        return ""
    values = f"{losses[far[0]]:.4g}, more than {EXPLODED:g} times the first one, {losses[0]:.4g}"
    return f"the loss of pass {far[0]} is {values}"


def is_better(value: float, best: float | None, rising: bool, least: float = 0.0) -> bool:
    """Whether a metric is better by more than `least`; `rising` ones by a larger value. Numbers are better than NaN."""
    if best is None or math.isnan(best):
        return best is None or not math.isnan(value)
    return value - least > best if rising else value + least < best
