"""History of a run: epochs and their records."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

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
class FitReport:
    """Content of report.json, for other programs; NaN and infinities are stored as text.

    `verdict` and the numbers that it rests on (`checks`), `faults`, `notes`; `passes` made, why the run `ended` before
    its last (empty where it did not), the epoch with the best monitored metric (0: none has ended), a row per epoch,
    the names of the labels from 0 on, where the samples have some, and what was taken of the samples, `validation` of
    others; `tensors` as in `Fitted`. `losses` are those of the passes, `about` says what was trained on what,
    `confusion` counts predictions by the final weights on the validation samples, and `figures` are what the pictures
    of the plan show.
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


class History(dict[str, list[float]]):
    """A list for each column of `history.csv`, also by other names of it.

    `val_loss` is `validation_loss`, `accuracy` is `training_accuracy` where that is measured, `acc` is `accuracy`,
    `train_loss` is `loss`, `lr` is `learning_rate`; so is every other way in which metrics are written.
    """

    def __missing__(self, name: str) -> list[float]:
        """The column by its other name; KeyError with the names that there are."""
        from deployer.fitting.metrics import plain_name

        prefix = next((p for p in (*VALIDATED, *TRAINED) if name.startswith(p)), "")
        validated, metric = prefix in VALIDATED, name.removeprefix(prefix)
        for word in (metric, metric := plain_name(metric)):
            for column in (f"validation_{word}",) if validated else (COLUMNS.get(word, word), f"training_{word}"):
                if column in self:
                    return self[column]
        more = "validation=... or train_metrics=True measure more"
        if not validated and f"validation_{metric}" in self:
            more = f"'val_{metric}' is that of the validation samples, train_metrics=True measures it in training, too"
        raise KeyError(f"{name!r} is not in the history, which has {', '.join(self)}; {more}")

    @property
    def history(self) -> "History":
        """The columns themselves, as Keras has them."""
        return self


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


def is_better(value: float, best: float | None, rising: bool) -> bool:
    """Whether a metric has improved; `rising` metrics by a larger value. Every number is better than NaN."""
    if best is None or math.isnan(best):
        return best is None or not math.isnan(value)
    return value > best if rising else value < best
