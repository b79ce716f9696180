"""Settings of a run over epochs: the task to learn, and the options of the run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from deployer.core.errors import OptionProblem, Warn
from deployer.fitting.data.streams import AnySource
from deployer.fitting.history import LOSS
from deployer.fitting.metrics import MetricChoice, MetricSpecs, plain_name, read_metrics
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.lr_schedules.lr_schedule import CONSTANT, LrSchedule, read_schedule, read_warmup
from deployer.lr_schedules.windows import ACCUMULATIONS, PARTIAL_ACCUMULATION
from deployer.training.groups import ParameterGroup
from deployer.training.problem import NO_LIMITS, Problem, pose_problem
from deployer.training.settings import Given
from deployer.training.tensors.selection import Expected
from deployer.training.update_graph import Limits

CHECKS = 8
"""So many passes of a run are repeated in float64 by default."""
OVERFIT_BOUND = 0.05
"""The loss that a few samples must fall below by default."""


VALIDATED = re.compile("^(val|valid|validation)_")
"""What other libraries put before the name of a metric; the monitored one is always that of validation samples."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Training task: the loss and the update rule; the fields are those of `build_train_graph`.

    `lr_scheduler` is a schedule or the text of one, `warmup_steps` the text of the option of that name; without both
    the rates are constants.
    `accumulate` combines the gradients of an update's passes: their "sum", or the "mean" as of one batch.
    """

    loss: str
    optimizer: str = ""
    lr: float = 0.01
    trainable: str = ""
    settings: Given = field(default_factory=dict)
    class_weights: Sequence[float] = ()
    groups: Sequence[ParameterGroup] = ()
    limits: Limits = NO_LIMITS
    free_rates: bool = False
    dropout: bool = True
    axes: Axes = NO_AXES
    lr_scheduler: str | LrSchedule = ""
    warmup_steps: str = ""
    accumulate: str = ACCUMULATIONS[0]
    expected: Expected = ()
    initial: str = ""

    def __post_init__(self) -> None:
        """Raise OptionProblem for an accumulation that is none."""
        _check_choice("accumulate", self.accumulate, ACCUMULATIONS)

    def problem(self, model: Path, seed: int, warn: Warn) -> Problem:
        """The training problem of a model, with that seed of its dropout; what runs in it is renewed."""
        own = ("lr", "lr_scheduler", "warmup_steps", "accumulate")
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        given["learning_rate"] = self.lr
        return pose_problem(model, **given, seed=seed, statistics=True, mean=self.is_mean, warn=warn)

    @property
    def is_mean(self) -> bool:
        """Whether an update takes the mean over its passes."""
        return self.accumulate == ACCUMULATIONS[1]

    @property
    def lr_schedule(self) -> LrSchedule | None:
        """The schedule of the rates; None where they are constants."""
        if isinstance(self.lr_scheduler, LrSchedule):
            count, first = read_warmup(self.warmup_steps)
            return replace(self.lr_scheduler, warm_up=count, first=first, free=self.free_rates)
        if not (self.lr_scheduler or self.warmup_steps):
            return None
        return read_schedule(self.lr_scheduler or CONSTANT, self.warmup_steps, self.free_rates)


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """Options of a run: length, data split, stopping rules, metrics, checkpoints and checks.

    `epochs` over the samples, or `n_steps` passes in all; `accumulate_grad_batches` passes per update;
    `partial_accumulation` skips or applies ("skip", "apply") an incomplete accumulation window at the end of the run.
    `validation` is a share of the samples, or a separate source, with `validation_target` as in `read_source`.
    `drop_last` drops the incomplete last batch of an epoch instead of filling it up, `class_balanced` draws the samples
    of an epoch with replacement, each class as often as any other. `patience` epochs without a `monitor` that is better
    by more than `min_delta` end the run (0: never). `overfit` trains the first so many samples alone, until their loss
    is below `bound`. `metrics` are names or functions of what is measured besides the loss, `top` numbers of best
    scores among which a label counts as found; with `train_metrics` they are measured on the training samples, too, by
    default those that are asked for, unless batches would have to be read again beside those of validation.
    `monitor_mode` ("min", "max") says of a monitored function which of its values are better. With `restore_best` the
    trained weights are those of the best epoch. A checkpoint is written every `every` passes, by default at the end of
    each epoch, and with `resume` the run goes on from it. `checks` passes are repeated in float64.
    With `latent_replay` layers in front of the trained ones run once for each sample, and epochs run the others.
    """

    epochs: int = 1
    n_steps: int | None = None
    accumulate_grad_batches: int = 1
    partial_accumulation: str = PARTIAL_ACCUMULATION[0]
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    class_balanced: bool = False
    validation: AnySource | float | None = None
    validation_target: Path | None = None
    patience: int = 0
    min_delta: float = 0.0
    monitor: str = LOSS
    monitor_mode: str = ""
    restore_best: bool = False
    metrics: MetricSpecs = ()
    train_metrics: bool | None = None
    top: tuple[int, ...] = ()
    overfit: int | None = None
    bound: float = OVERFIT_BOUND
    every: int = 0
    resume: bool = False
    checks: int = CHECKS
    latent_replay: bool = False

    def __post_init__(self) -> None:
        """Raise OptionProblem for numbers without meaning."""
        least = {
            "epochs": 1,
            "n_steps": 1,
            "accumulate_grad_batches": 1,
            "overfit": 1,
            "patience": 0,
            "every": 0,
            "checks": 0,
        }
        for name, low in least.items():
            number = getattr(self, name)
            if number is not None and number < low:
                raise OptionProblem(f"{name} is {number}", hint=f"{low} or more")
        _check_choice("partial_accumulation", self.partial_accumulation, PARTIAL_ACCUMULATION)
        if self.overfit is not None and self.validation is not None:
            raise OptionProblem("validation has no effect with overfit", hint="leave one of them out")
        if self.validation_target is not None and (self.validation is None or isinstance(self.validation, float | int)):
            raise OptionProblem("validation_target has no effect", hint="leave it out: validation is not a file")

    @property
    def metric_choice(self) -> MetricChoice:
        """The metrics that are asked for."""
        return read_metrics(self.metrics, self.top)

    @property
    def monitored(self) -> str:
        """The name of the monitored metric."""
        if self.monitor in self.metric_choice.functions:
            return self.monitor
        return plain_name(VALIDATED.sub("", self.monitor))

    def measures_training(self, at_once: bool) -> bool:
        """Whether training samples are measured, of which all lie in memory where they are read `at_once`."""
        if self.train_metrics is not None:
            return self.train_metrics
        choice = self.metric_choice
        return bool(choice.names or choice.functions) and (at_once or self.validation is None)

    @property
    def flush(self) -> bool:
        """Whether an incomplete accumulation window at the end of the run is applied."""
        return self.partial_accumulation == PARTIAL_ACCUMULATION[1]


def _check_choice(name: str, choice: str, choices: Sequence[str]) -> None:
    """Raise OptionProblem where a choice is none of those that there are."""
    if choice not in choices:
        raise OptionProblem(f"{name} is {choice!r}", hint=f"one of {', '.join(choices)}")
