"""Epoch loop: segments of passes, a validation after each epoch, checkpoints, early stopping."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deployer.core.errors import DeployerWarning, Warn, python_warning
from deployer.core.operator import Array
from deployer.fitting.callback import Callback
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.data.sources import Feed
from deployer.fitting.engine import Pace, Trainer
from deployer.fitting.history import EpochRow, exploded, is_better, mean_loss
from deployer.fitting.metrics import Measurements
from deployer.training.order import Order
from deployer.verify.checked import checked_passes

DIVERGED, PATIENCE, REACHED = "diverged", "patience", "reached"


@dataclass(frozen=True)
class Horizon:
    """Stopping rules of a run, and its schedule of checkpoints and checks.

    It ends after `passes`, or with an epoch: after `patience` epochs in which the monitored metric was not better by
    more than `min_delta` (0: never), or once it is below `bound`. `every` is the number of passes between checkpoints,
    0 for one at the end of each epoch; `checks` that of passes that the float64 reference repeats. `monitored` is the
    metric, `rising` says that more is better.
    """

    passes: int
    checks: int = 0
    patience: int = 0
    bound: float | None = None
    every: int = 0
    monitored: str = "loss"
    rising: bool = False
    min_delta: float = 0.0

    def values(self, rows: Sequence[EpochRow]) -> list[float]:
        """The monitored metric of each epoch."""
        return [row.metrics.get(self.monitored, row.loss) for row in rows]

    def waited(self, rows: Sequence[EpochRow]) -> int:
        """Epochs since the last one in which the monitored metric was better by more than `min_delta`."""
        best, last = None, 0
        for row, value in zip(rows, self.values(rows), strict=True):
            if is_better(value, best, self.rising, self.min_delta):
                best, last = value, row.epoch
        return rows[-1].epoch - last

    def watched(self, validated: bool) -> str:
        """The monitored metric, and the samples that it is of."""
        return f"{'validation' if validated else 'training'} {self.monitored.replace('_', ' ')}"

    def announced(self, validated: bool) -> str:
        """The metric, direction and patience of early stopping, in a sentence."""
        better, epochs = "larger" if self.rising else "smaller", f"{self.patience} epoch{'s' * (self.patience > 1)}"
        least = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"early stopping watches {self.watched(validated)} ({better} is better{least}), patience {epochs}"

    def stopped(self, place: CheckpointPlace) -> str:
        """Why early stopping ended the run; empty where it did not."""
        if place.ended != PATIENCE or place.best is None:
            return ""
        row = place.rows[-1]
        what, value = self.watched(bool(row.metrics)), row.metrics.get(self.monitored, row.loss)
        least = f", min_delta {self.min_delta:g}" if self.min_delta else ""
        best = f"the best one, {place.best:.4g}, is of epoch {place.best_epoch}"
        return (
            f"early stopping after epoch {row.epoch}: {what} is {value:.4g}, {best} (patience {self.patience}{least})"
        )


@dataclass(frozen=True, eq=False)
class TrainingLoop:
    """A run over samples in an order. `measure` gives the metrics of a state on validation and training samples,
    `keep` writes a checkpoint, also as the best one, `judge` checks a pass by its states before and after, and `follow`
    sets the rates of what follows a place, by the monitored metric of each epoch.
    """

    trainer: Trainer
    feed: Feed
    horizon: Horizon
    measure: Callable[[Mapping[str, Array]], tuple[Measurements, Measurements]]
    keep: Callable[[CheckpointPlace, bool], None]
    judge: Callable[[int, Mapping[str, Array], Mapping[str, Array], float, Sequence[Array]], None]
    rate: Callable[[int], float]
    callback: Callback
    follow: Callable[[CheckpointPlace, Sequence[float]], None]
    warn: Warn = python_warning
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        """Begin slowly."""
        each = sum(array.nbytes for array in self.feed.bare(0))
        object.__setattr__(self, "pace", Pace(each))

    @property
    def order(self) -> Order:
        """The order of the samples."""
        return self.feed.order

    def run(self, place: CheckpointPlace) -> CheckpointPlace:
        """Go on from a place to its horizon; the place there."""
        checked = (
            frozenset(checked_passes(self.horizon.passes, self.horizon.checks)) if self.horizon.checks else frozenset()
        )
        at_begin = True
        self.follow(place, self.horizon.values(place.rows))
        while place.passes < self.horizon.passes and not place.ended:
            if at_begin or place.passes % self.order.passes == 0:
                self.callback.on_epoch_start(place.passes // self.order.passes + 1)
            at_begin = False
            place = self._segment(place, checked)
            if place.ended == DIVERGED:
                return place
            is_best, at_end = False, place.passes % self.order.passes == 0
            if at_end:
                place, is_best = self._epoch(place)
                self.follow(place, self.horizon.values(place.rows))
            over = place.ended or place.passes >= self.horizon.passes
            if over or is_best or place.passes % (self.horizon.every or self.order.passes) == 0:
                self.keep(place, is_best)
            if at_end:
                self.callback.on_epoch_end(place.rows[-1])
        return place

    def _segment(self, place: CheckpointPlace, checked: frozenset[int]) -> CheckpointPlace:
        first, count = place.passes, self.pace.begin()
        last = min([first + count, *(end for end in self._stops(first, checked))])
        samples = self.feed.passes(first, last)
        state, losses = self.trainer.advance(place.state, first, samples, self.feed.updates.flushes(last - 1))
        self.pace.end(len(losses))
        after = replace(place, passes=first + len(losses), losses=np.concatenate([place.losses, losses]), state=state)
        if exploded(after.losses) and not exploded(place.losses):
            hint = "a smaller learning rate, max_grad_norm, or inputs of a smaller range"
            self.warn(DeployerWarning(exploded(after.losses), hint=hint))
        if not np.isfinite(losses).all():
            return replace(after, ended=DIVERGED)
        if first in checked:
            self.judge(first, place.state, state, float(losses[0]), samples[0])
        for index, loss in enumerate(losses.tolist(), first):
            self.callback.on_step(index + 1, loss, self.rate(index))
        self.callback.on_segment(after, mean_loss(losses), self.rate(last))
        return after

    def _stops(self, first: int, checked: frozenset[int]) -> list[int]:
        """List the passes at which a segment that begins at `first` must stop; the earliest one applies."""
        periods = [self.order.passes, *([self.horizon.every] if self.horizon.every else [])]
        stops = [self.horizon.passes, *((first // period + 1) * period for period in periods)]
        later = [index for index in checked if index > first]
        return [*stops, *([first + 1] if first in checked else []), *([min(later)] if later else [])]

    def _epoch(self, place: CheckpointPlace) -> tuple[CheckpointPlace, bool]:
        """The place with the row of the epoch that has ended, and whether it is the best one so far."""
        number = place.passes // self.order.passes
        losses = place.losses[(number - 1) * self.order.passes :]
        validation, training = self.measure(place.state)
        metrics, classes = validation.values, validation if validation.values else training
        row = EpochRow(
            number,
            place.passes,
            mean_loss(losses),
            self.rate(place.passes - 1),
            metrics,
            training.values,
            classes.per_class,
            classes.confusion_matrix,
        )
        if metrics:
            self.callback.on_evaluation(number, metrics)
        value = metrics.get(self.horizon.monitored, row.loss)
        better = is_better(value, place.best, self.horizon.rising)
        place = replace(place, rows=(*place.rows, row))
        if better:
            place = replace(place, best=value, best_epoch=number)
        if self.horizon.bound is not None and value < self.horizon.bound:
            return replace(place, ended=REACHED), better
        if self.horizon.patience and self.horizon.waited(place.rows) >= self.horizon.patience:
            place = replace(place, ended=PATIENCE)
            self.callback.on_message(self.horizon.stopped(place))
        return place, better
