"""`deployer.fit`: training over epochs in one call, with the names of PyTorch and of the command line."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.plan import Options
from deployer.core.target import load, native
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.callback import Callbacks
from deployer.fitting.data.streams import AnySource
from deployer.fitting.fit import Fitted, fit_task
from deployer.fitting.history import LOSS
from deployer.fitting.metrics import MetricSpecs
from deployer.fitting.task import CHECKS, OVERFIT_BOUND, Task, TrainingRun
from deployer.frontend.prepare import Axes
from deployer.lr_schedules.lr_schedule import LrSchedule
from deployer.lr_schedules.windows import ACCUMULATIONS, PARTIAL_ACCUMULATION
from deployer.training.groups import ParameterGroup, read_group
from deployer.training.settings import PAIRS
from deployer.training.update_graph import Limits

GroupSpec: TypeAlias = ParameterGroup | str | Mapping[str, Any]
"""A group, its text as in `--param-group`, or a mapping with `params` and what differs for them, as in PyTorch."""


@named_parameters
def fit(
    model: Path | str,
    data: AnySource,
    loss: str,
    optimizer: str = "",
    *,
    folder: Path | str,
    lr: float = 0.01,
    momentum: float | None = None,
    weight_decay: float | None = None,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    alpha: float | None = None,
    nesterov: bool = False,
    max_grad_norm: float | None = None,
    max_grad_value: float | None = None,
    param_groups: Sequence[GroupSpec] = (),
    trainable: str = "",
    lr_scheduler: str | LrSchedule = "",
    warmup_steps: int | str = 0,
    any_rate: bool = False,
    batch_size: int | None = None,
    epochs: int = 1,
    n_steps: int | None = None,
    accumulate_grad_batches: int = 1,
    accumulate: str = ACCUMULATIONS[0],
    partial_accumulation: str = PARTIAL_ACCUMULATION[0],
    shuffle: bool = True,
    drop_last: bool = False,
    class_balanced: bool = False,
    seed: int = 0,
    init: str = "",
    dropout: str = "on",
    class_weights: Sequence[float] = (),
    label_smoothing: float | None = None,
    ignore_index: int | None = None,
    delta: float | None = None,
    beta: float | None = None,
    validation: AnySource | float | None = None,
    validation_target: Path | None = None,
    evaluated: Path | None = None,
    patience: int = 0,
    monitor: str = LOSS,
    monitor_mode: str = "",
    restore_best: bool = False,
    metrics: MetricSpecs = (),
    train_metrics: bool | None = None,
    top: Sequence[int] = (),
    overfit: int | None = None,
    bound: float = OVERFIT_BOUND,
    check_passes: int = CHECKS,
    checkpoint_every: int = 0,
    resume: bool = False,
    latent_replay: bool = False,
    target: str = "",
    buffering: str = Options.strategy,
    budgets: Mapping[str, int] | None = None,
    outermost: str = "",
    cores: int | None = None,
    canonical_batch: bool = False,
    target_data: Path | None = None,
    target_column: str = "",
    classes: Sequence[str] = (),
    force: bool = False,
    callback: Callbacks = None,
    progress: bool = True,
    warn: Warn = python_warning,
) -> Fitted:
    """Train an ONNX model of the forward pass over epochs by its generated program; files go to `folder`.

    `data` is an .npz file, a table, a folder of images, or arrays by name; `target_data` is the file of targets beside
    a single array, `target_column` the heading of the target in tables, where it is not one of the usual ones, and
    `classes` names the labels from 0 on. `loss` and `optimizer` are names as in `deployer train-graph`.

    The update:

    - `lr`: learning rate. `momentum`, `weight_decay`, `betas`, `eps`, `alpha` (decay rate of the mean squared
      gradient), `nesterov`: those of the optimizer, by default as in PyTorch.
    - `max_grad_norm` bounds the norm of all gradients, `max_grad_value` the magnitude of an element; off by default.
    - `trainable`: a regular expression for the names of what is trained; by default everything that can be.
      `param_groups`: mappings such as {"params": "bias$", "weight_decay": 0.0}, where `params` is a regular expression
      or a list of names, and "frozen": True leaves them as they are; or texts as of `--param-group`.
    - `lr_scheduler`: a text as of `--lr-scheduler`, such as "cosine". `warmup_steps`: updates in which the rate rises
      to `lr` first, or the text UPDATES:FIRST. `any_rate` allows rates that are negative or very large.
    - `init`: the rule by which initial weights are drawn; by default they are the file's. `dropout` "off" leaves
      dropout out.

    The run:

    - `batch_size`: length of inputs' first axes, where the model leaves them open. `epochs` over the samples, or
      `n_steps` passes in all. `accumulate_grad_batches`: passes per update; `accumulate` takes the "sum" of their
      gradients or the "mean", `partial_accumulation` is what becomes of an incomplete window at the end ("skip",
      "apply").
    - `shuffle` in every epoch, by `seed`, which is that of dropout, initial weights and of a split, too. `drop_last`
      drops an incomplete last batch instead of filling it up. `class_balanced` draws each class as often as any other.
    - `class_weights`, `label_smoothing`, `ignore_index`, `delta`, `beta`: those of the loss.
    - `validation`: other samples, in any form of `data`, with `validation_target`; or a share of the samples.
      `evaluated` is the model that validation runs, with initializers of the same names, by default the model itself.
      `monitor` is the metric of the best epoch, `monitor_mode` ("min", "max") says which of its values are better if it
      is a function; `patience` so many epochs without a better one end the run (0: never). With `restore_best` the
      trained weights are those of the best epoch.
    - `metrics`: what is measured besides the loss: names, or functions of all outputs and targets as arrays;
      `train_metrics` measures them on the training samples, too, by default where `metrics` are given; `top` are
      numbers of best scores among which a label counts as found.
    - `overfit` trains the first so many samples alone, until their loss is below `bound`.
    - `check_passes` passes are repeated in float64. A checkpoint is written every `checkpoint_every` passes (0: after
      each epoch); with `resume` the run goes on from it.
    - With `latent_replay` frozen layers in front of the trained ones run once for each sample; bits are the same.
    - `target` is the machine, by default this one at full speed; `cores`, `buffering`, `budgets` (bytes by level) and
      `outermost` (the last level tensors may lie in) are as in `deployer train`. Bits are the same for all.
    - `canonical_batch` adds gradients up sample by sample, so that bits do not depend on how an update is split into
      passes.
    - `force` replaces files of others. `callback` is one or several of `Callback`; `progress` shows a bar on a terminal
      and in a notebook; `warn` is called with what is odd but harmless.

    Raises OptionProblem for options without meaning, and what reading, planning and running raise. Values that are
    wrong, and a run that diverges, are no exceptions: `verdict` and `faults` say so.
    """
    task = Task(
        loss=loss,
        optimizer=optimizer,
        lr=lr,
        trainable=trainable,
        settings=hyperparameters(
            momentum=momentum,
            weight_decay=weight_decay,
            betas=betas,
            eps=eps,
            alpha=alpha,
            nesterov=nesterov,
            label_smoothing=label_smoothing,
            ignore_index=ignore_index,
            delta=delta,
            beta=beta,
        ),
        class_weights=class_weights,
        groups=[group_of(each, regular_expression) for each in param_groups],
        limits=grad_limits(max_grad_norm, max_grad_value),
        free_rates=any_rate,
        dropout=check_dropout(dropout),
        axes=Axes(batch_size, {}),
        lr_scheduler=lr_scheduler,
        warmup_steps=str(warmup_steps or ""),
        accumulate=accumulate,
        initial=init,
    )
    run = TrainingRun(
        epochs=epochs,
        n_steps=n_steps,
        accumulate_grad_batches=accumulate_grad_batches,
        partial_accumulation=partial_accumulation,
        seed=seed,
        shuffle=shuffle,
        drop_last=drop_last,
        class_balanced=class_balanced,
        validation=validation,
        validation_target=validation_target,
        patience=patience,
        monitor=monitor,
        monitor_mode=monitor_mode,
        restore_best=restore_best,
        metrics=metrics,
        train_metrics=train_metrics,
        top=tuple(top),
        overfit=overfit,
        bound=bound,
        every=checkpoint_every,
        resume=resume,
        latent_replay=latent_replay,
        checks=check_passes,
    )
    return fit_task(
        model,
        data,
        task,
        run,
        folder=folder,
        target_data=target_data,
        target_column=target_column,
        classes=classes,
        evaluated=evaluated,
        options=compiler_options(target, buffering, budgets, outermost, cores, canonical_batch),
        force=force,
        callback=callback,
        progress=progress,
        warn=warn,
    )


def compiler_options(
    target: str,
    buffering: str,
    budgets: Mapping[str, int] | None,
    outermost: str,
    cores: int | None,
    canonical_batch: bool = False,
) -> Options:
    """The compiler's options; without a target those of this machine at full speed."""
    machine = load(target) if target else native()
    last = outermost or machine.levels[-1].name
    known = dict(budgets or {})
    return Options(machine.name, buffering, known, cores=cores, outermost=last, canonical_batch=canonical_batch)


def check_dropout(dropout: str) -> bool:
    """Whether `dropout` is "on"; OptionProblem for another word than "on" and "off"."""
    if dropout not in ("on", "off"):
        raise OptionProblem(f"dropout is {dropout!r}", hint="'on' or 'off'")
    return dropout == "on"


def takes_mean(accumulate: str, passes: int) -> bool:
    """Whether an update takes the mean of its passes; OptionProblem for an unknown reduction or no pass."""
    if accumulate not in ACCUMULATIONS:
        raise OptionProblem(f"accumulate is {accumulate!r}", hint=f"one of {', '.join(ACCUMULATIONS)}")
    if passes < 1:
        raise OptionProblem(f"accumulate_grad_batches is {passes}", hint="1 or more")
    return accumulate == ACCUMULATIONS[1] and passes > 1


def hyperparameters(
    *, betas: tuple[float, float] | None = None, nesterov: bool = False, **given: float | None
) -> dict[str, float]:
    """The settings that are given, by their names on the command line."""
    if betas is not None:
        if not isinstance(betas, Sequence) or isinstance(betas, str) or len(betas) != 2:
            raise OptionProblem(f"betas is {betas!r}", hint="two numbers, such as (0.9, 0.999)")
        given = {**given, **dict(zip(PAIRS["betas"], map(float, betas), strict=True))}
    found = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    return found | ({"nesterov": 1} if nesterov else {})


def grad_limits(max_grad_norm: float | None, max_grad_value: float | None) -> Limits:
    """The limits of gradients; OptionProblem for one that is not positive."""
    return Limits(max_grad_value, max_grad_norm)


def group_of(group: GroupSpec, pattern: Callable[[Any], re.Pattern[str]]) -> ParameterGroup:
    """A parameter group; `pattern` makes an expression for names of a mapping's `params`.

    OptionProblem for a mapping without `params`.
    """
    if isinstance(group, ParameterGroup):
        return group
    if isinstance(group, str):
        return read_group(group)
    given = dict(group)
    example = (
        '{"params": "head", "lr": 0.001}, where params is a regular expression, names, or parameters of the module'
    )
    if "params" not in given:
        raise OptionProblem("a parameter group has no params", [("found", ", ".join(map(str, given)))], example)
    expression = pattern(given.pop("params"))
    rate, frozen, betas = given.pop("lr", None), given.pop("frozen", False), given.pop("betas", None)
    nesterov = bool(given.pop("nesterov", False))
    numbers: dict[str, float | None] = {str(name): float(value) for name, value in given.items()}
    settings = hyperparameters(betas=betas, nesterov=nesterov, **numbers)
    return ParameterGroup(expression, rate, bool(frozen), settings=settings)


def regular_expression(params: Any) -> re.Pattern[str]:
    """An expression for names, from its text or from a list of names."""
    if not isinstance(params, str):
        return exactly([str(name) for name in params])
    try:
        return re.compile(params)
    except re.error as error:
        cause = f"params {params!r} of a parameter group is no regular expression"
        raise OptionProblem(cause, [("cause", str(error))], "a regular expression, or a list of names") from None


def exactly(names: Sequence[str]) -> re.Pattern[str]:
    """An expression for these names alone."""
    return re.compile(f"^(?:{'|'.join(map(re.escape, names))})$")
