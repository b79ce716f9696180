"""Results of each epoch, one row each, as a CSV table."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from deployer.core.ir import TensorRecord
from deployer.core.operator import Array
from deployer.fitting.verdicts import FitChecks
from deployer.training.tables.taken import Taken


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
