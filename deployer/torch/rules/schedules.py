"""Learning-rate schedules of PyTorch and functions of the step, as rates of a run that is made elsewhere."""

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from deployer.core.errors import DeployerWarning, OptionProblem, Warn, python_warning
from deployer.core.operator import Array
from deployer.lr_schedules.lr_schedule import LrSchedule, check_rate, schedule_of
from deployer.torch.rules.update_rule import UpdateRule

SchedulerSpec: TypeAlias = str | torch.optim.lr_scheduler.LRScheduler | Callable[[int], float]
"""A schedule by its text, a scheduler of PyTorch, or a function from the update to the factor of the rate."""


INTERVALS = ("step", "epoch")
"""After what a scheduler of PyTorch is stepped: each update, or each epoch."""
LENGTHS = ("T_max", "total_iters", "milestones", "_milestones", "step_size")
"""Attributes of schedulers that are numbers of their steps."""
VANISHED = 1e-4
"""A rate that is so much of the largest one trains nothing more."""


@dataclass(frozen=True)
class RecordedSchedule(LrSchedule):
    """The rates that a scheduler of PyTorch gives the groups of its optimizer, stepped after each update or epoch.

    `epochs` is the number of epochs of the run, where it is stepped after each update.
    """

    scheduler: Any = None
    rule: UpdateRule | None = None
    interval: str = INTERVALS[0]
    epochs: int = 0
    epoch_of: Callable[[int], int] | None = None
    warn: Warn = python_warning
    told: list[str] = field(default_factory=list)

    def over(self, epoch_of: Callable[[int], int], epochs: int) -> LrSchedule:
        """The schedule with the epoch of each update, where it is stepped after each epoch."""
        if self.interval == INTERVALS[1]:
            return replace(self, epoch_of=epoch_of)
        return replace(self, epochs=epochs)

    def rates(self, bases: Sequence[float], updates: int, base: float) -> Array:
        """The rate of each update for each base rate, float32 [updates, bases]; the scheduler stays as it is."""
        assert self.rule is not None, "a scheduler has the rule of its optimizer"
        places = [self.epoch_of(update) if self.epoch_of else update for update in range(updates)]
        known = recorded_rates(self.scheduler, 1 + max(places, default=-1), self.rule)
        rows = [known[place] for place in places]
        self._tell(updates, rows)
        rates = np.array([self.rule.by_base(bases, row) for row in rows], np.float32).reshape(updates, len(bases))
        for update, row in enumerate(rates):
            for rate in row:
                check_rate(float(rate), f"the rate of update {update}", self.free, zero=True)
        return rates

    def _tell(self, updates: int, rows: Sequence[tuple[float, ...]]) -> None:
        """Warn of a scheduler that was made for epochs: its numbers are, or its rates vanish."""
        if self.epochs < 2 or updates < 2 * self.epochs or self.told:
            return
        numbers = [int(n) for s in _parts(self.scheduler) for name in LENGTHS for n in _listed(getattr(s, name, ()))]
        gone = sum(row[0] < VANISHED * max(x[0] for x in rows) for row in rows)
        if (numbers and max(numbers) <= self.epochs) or gone > updates // 2:
            facts = [("updates", str(updates)), ("epochs", str(self.epochs)), ("rate", f"{rows[0][0]:g}")]
            facts += [("at the end", f"{rows[-1][0]:g}")]
            cause = f"{type(self.scheduler).__name__} is stepped after each update, and looks as if made for epochs"
            hint = 'lr_scheduler_interval="epoch", which steps it after each epoch'
            self.told.append(cause)
            self.warn(DeployerWarning(cause, facts, hint))


def _parts(scheduler: Any) -> list[Any]:
    """A scheduler, and those that it is made of."""
    return [scheduler, *(x for each in getattr(scheduler, "_schedulers", ()) for x in _parts(each))]


def _listed(value: Any) -> list[Any]:
    """The numbers of an attribute, which is a number or several."""
    return [value] if isinstance(value, int) else list(value)


@dataclass(frozen=True)
class FollowingSchedule(RecordedSchedule):
    """The rates that ReduceLROnPlateau gives the groups, stepped after each epoch with the monitored metric."""

    @property
    def watches(self) -> str:
        """The better values of the metric for the scheduler."""
        return str(self.scheduler.mode)

    def rates(self, bases: Sequence[float], updates: int, base: float) -> Array:
        """The present rates, float32 [updates, bases], which hold until the first epoch has ended."""
        return np.array([self.after_epochs(bases, ())] * updates, np.float32).reshape(updates, len(bases))

    def after_epochs(self, bases: Sequence[float], values: Sequence[float]) -> Sequence[float]:
        """The rate of each base after epochs with these values of the metric; the scheduler stays as it is."""
        assert self.rule is not None, "a scheduler has the rule of its optimizer"
        with _kept(self.scheduler):
            for value in values:
                self.scheduler.step(value)
            rates = self.rule.by_base(bases)
        for rate in rates:
            check_rate(rate, f"the rate after epoch {len(values)}", self.free, zero=True)
        return rates


@contextlib.contextmanager
def _kept(scheduler: Any) -> Iterator[None]:
    """A scheduler and the groups of its optimizer, which are as before in the end."""
    groups, optimizer = scheduler.optimizer.param_groups, scheduler.optimizer
    before, kept = copy.deepcopy(scheduler.state_dict()), [dict(group) for group in groups]
    called = getattr(optimizer, "_opt_called", None)
    try:
        optimizer._opt_called = True  # its warning is about a loop of PyTorch's
        yield
    finally:
        for group, known in zip(groups, kept, strict=True):
            group.update(known)
        scheduler.load_state_dict(before)
        optimizer._opt_called = bool(called)


def advance(scheduler: Any, interval: str, updates: int, values: Sequence[float]) -> None:
    """Step a scheduler as a loop of PyTorch's would have: after each update or epoch, or with the metric of each."""
    scheduler.optimizer._opt_called = True
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        for value in values:
            scheduler.step(value)
        return
    for _ in range(len(values) if interval == INTERVALS[1] else updates):
        scheduler.step()


def recorded_rates(scheduler: Any, updates: int, rule: UpdateRule) -> list[tuple[float, ...]]:
    """The rates of a scheduler's groups at each update, after which it is stepped.

    The scheduler and its optimizer stay as they are. OptionProblem where it changes another setting than the rates.
    """
    rows = list[tuple[float, ...]]()
    with _kept(scheduler):
        for _ in range(updates):
            rule.check_unchanged()
            rows.append(tuple(float(group["lr"]) for group in scheduler.optimizer.param_groups))
            if len(rows) < updates:
                scheduler.step()
    return rows


def _gives_numbers(function: Callable[[int], float]) -> bool:
    """Whether a function has a number for the first update."""
    try:
        return not isinstance(function, type) and math.isfinite(function(0))
    except (TypeError, AttributeError):
        return False


def schedule_spec(
    spec: SchedulerSpec,
    rule: UpdateRule,
    warmup_steps: int | str,
    interval: str = INTERVALS[0],
    warn: Warn = python_warning,
) -> str | LrSchedule:
    """Return the schedule as `Task` takes it; a scheduler of PyTorch is stepped after each update, or each epoch.

    ReduceLROnPlateau is stepped after each epoch, with the monitored metric. OptionProblem for a scheduler that belongs
    to another optimizer, or beside a warm-up.
    """
    if interval not in INTERVALS:
        raise OptionProblem(f"lr_scheduler_interval is {interval!r}", hint=f"one of {', '.join(INTERVALS)}")
    if interval == INTERVALS[1] and not isinstance(spec, torch.optim.lr_scheduler.LRScheduler):
        cause = "lr_scheduler_interval has no effect without a scheduler of PyTorch"
        raise OptionProblem(cause, hint="leave it out: texts and functions count updates")
    if isinstance(spec, str):
        return spec
    if isinstance(spec, torch.optim.lr_scheduler.LRScheduler):
        if spec.optimizer is not rule.live:
            hint = "optimizer=optimizer, the one that the scheduler was made with"
            raise OptionProblem("the scheduler belongs to another optimizer than the one that trains", hint=hint)
        if warmup_steps:
            hint = "SequentialLR of LinearLR and this scheduler"
            raise OptionProblem("warmup_steps has no effect beside a scheduler of PyTorch", hint=hint)
        own = schedule_of(type(spec).__name__, float)
        follows = isinstance(spec, torch.optim.lr_scheduler.ReduceLROnPlateau)
        kind = FollowingSchedule if follows else RecordedSchedule
        return kind(own.schedule, scheduler=spec, rule=rule, interval=interval, warn=warn)
    if not callable(spec) or not _gives_numbers(spec):
        facts = [("found", f"the class {spec.__name__}" if isinstance(spec, type) else type(spec).__name__)]
        hint = "a text such as 'cosine', a scheduler of torch.optim.lr_scheduler, or a function of the update"
        raise OptionProblem("lr_scheduler is no schedule", facts, hint)
    return schedule_of("a function", spec)
