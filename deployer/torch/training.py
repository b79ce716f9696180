"""Training of a PyTorch module by generated code, in one call, and its weights back in the module."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deployer.core.errors import DatasetMismatch, RunFailed, Warn, python_warning
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.call import GroupSpec, check_dropout, compiler_options, grad_limits, hyperparameters
from deployer.fitting.callback import Callback, Callbacks, callback_group
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.data.sources import Feed
from deployer.fitting.fit import Fitted, Inspection, fit_task
from deployer.fitting.history import LOSS
from deployer.fitting.loop import DIVERGED
from deployer.fitting.metrics import MetricSpecs
from deployer.fitting.runs.run_callbacks import with_callbacks
from deployer.fitting.task import CHECKS, OVERFIT_BOUND, Task, TrainingRun
from deployer.lr_schedules.windows import ACCUMULATIONS, PARTIAL_ACCUMULATION, Updates
from deployer.running.output import write_file
from deployer.torch.boards.packaging import write_forward
from deployer.torch.call_forms import data_apart
from deployer.torch.capture import capture_outputs
from deployer.torch.data import read_columns
from deployer.torch.loss_choice import ClassWeights, choose_loss
from deployer.torch.objective_step import (
    CaptureOptions,
    ObjectiveStep,
    capture_objective,
    named_objective,
)
from deployer.torch.objectives import LossSpec
from deployer.torch.rules.optimizer_state import begun_with, state_places, write_state
from deployer.torch.rules.parameter_groups import parameter_groups
from deployer.torch.rules.schedules import INTERVALS, RecordedSchedule, SchedulerSpec, advance, schedule_spec
from deployer.torch.rules.update_rule import OptimizerSpec, UpdateRule, update_rule
from deployer.torch.samples.run_samples import reader, run_samples
from deployer.torch.samples.streams import StreamOptions
from deployer.torch.trained import Trained, as_trained
from deployer.torch.updates import FirstUpdates
from deployer.torch.weights import as_begun, load_into, on_tensors
from deployer.training.problem import Problem
from deployer.training.tables import check_column

MODEL, EVALUATED, RUN = "module.onnx", "evaluated.onnx", "run"
"""The captured step, the forward pass in evaluation, and the folder of the run, in the folder of a call."""


@data_apart
@named_parameters
def train(
    module: nn.Module,
    data: Any,
    loss: LossSpec,
    optimizer: OptimizerSpec = "",
    *,
    lr: float | None = None,
    momentum: float | None = None,
    weight_decay: float | None = None,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    alpha: float | None = None,
    nesterov: bool = False,
    max_grad_norm: float | None = None,
    max_grad_value: float | None = None,
    param_groups: Sequence[GroupSpec] = (),
    lr_scheduler: SchedulerSpec = "",
    lr_scheduler_interval: str = INTERVALS[0],
    warmup_steps: int | str = 0,
    any_rate: bool = False,
    batch_size: int | None = None,
    epochs: int = 1,
    n_steps: int | None = None,
    accumulate_grad_batches: int = 1,
    accumulate: str = ACCUMULATIONS[1],
    partial_accumulation: str = PARTIAL_ACCUMULATION[0],
    shuffle: bool | None = None,
    drop_last: bool = False,
    class_balanced: bool = False,
    in_memory: bool = False,
    seed: int = 0,
    sample_weight: Any = None,
    class_weights: ClassWeights = (),
    label_smoothing: float | None = None,
    ignore_index: int | None = None,
    delta: float | None = None,
    beta: float | None = None,
    validation: Any = None,
    patience: int = 0,
    monitor: str = LOSS,
    monitor_mode: str = "",
    restore_best: bool = False,
    metrics: MetricSpecs = (),
    train_metrics: bool | None = None,
    top: Sequence[int] = (),
    overfit: int | None = None,
    bound: float = OVERFIT_BOUND,
    dropout: str = "on",
    check: bool = True,
    check_passes: int = CHECKS,
    checkpoint_every: int = 0,
    resume: bool = False,
    latent_replay: bool = False,
    target: str = "",
    target_column: str = "",
    buffering: str = Options.strategy,
    budgets: Mapping[str, int] | None = None,
    outermost: str = "",
    cores: int | None = None,
    canonical_batch: bool = False,
    folder: Path | str | None = None,
    callback: Callbacks = None,
    progress: bool = True,
    remarks: Sequence[str] = (),
    warn: Warn = python_warning,
) -> Trained:
    """Train the module on `data`: its inputs and then its labels or target, samples along the first axis of each.

    `data` is a tuple of arrays or tensors (`train(module, x, y, loss=...)` is the same), a DataLoader or another
    iterable of batches, a Dataset of single samples, a folder of images, or a file, as `read_columns` has them. Loaders
    and datasets are read anew in every epoch, and no more than some batches of them lie in memory; a generator is read
    once. `loss` is a name as in `deployer train-graph`, a function or module of (output, target), of which those of
    PyTorch are known by name, or "model" where the module returns its loss. `optimizer` is a name or an optimizer of
    `torch.optim`, whose groups and settings count; what it has and no optimizer here has is an error. PyTorch itself
    differentiates: what it stops, scales or replaces on the way is so here, and buffers that forward writes are renewed
    in each pass. In the end the module has the trained weights and buffers, as by `load_into`; it keeps its own where
    the call raises. An optimizer of `torch.optim` is taken with its state and left with that of the last pass, and its
    scheduler is stepped, so that a loop of your own can go on. Arguments may also have the names that other libraries
    give them, such as `learning_rate`, `max_epochs` or `val_loader`.

    The update:

    - `lr`: learning rate, by default 0.01. `momentum`, `weight_decay`, `betas`, `eps`, `alpha` (decay rate of the mean
      squared gradient), `nesterov`: those of the optimizer, by default as in PyTorch.
    - `max_grad_norm` bounds the norm of all gradients, `max_grad_value` the magnitude of an element; off by default.
    - `param_groups`: mappings as in PyTorch, such as {"params": "bias$", "weight_decay": 0.0}; `params` may be a
      regular expression, names or parameters, and "frozen": True leaves them as they are.
    - `lr_scheduler`: a text as of `--lr-scheduler`, such as "cosine"; a scheduler of `torch.optim.lr_scheduler`,
      stepped after each update, or with `lr_scheduler_interval` "epoch" after each epoch, and ReduceLROnPlateau after
      each epoch with the `monitor`; or a function from the update, from 0 on, to the factor of `lr`. `warmup_steps`:
      updates in which the rate rises to `lr` first, or the text UPDATES:FIRST. `any_rate` allows rates that are
      negative or very large.

    The run:

    - `batch_size`: samples of a pass, by default the loader's, else 1. `epochs` over the samples, or `n_steps` passes
      in all. `accumulate_grad_batches`: passes per update; `accumulate` takes the "mean" of their gradients or the
      "sum", `partial_accumulation` is what becomes of an incomplete window at the end ("skip", "apply").
    - `shuffle` in every epoch, by `seed`, which is that of dropout and of a split, too; by default so, but a loader has
      its own order. `drop_last` drops an incomplete last batch instead of filling it up. `class_balanced` draws each
      class as often as any other. `in_memory` reads a loader or a dataset once and keeps its samples.
    - `sample_weight`: a weight for each sample of arrays, for a loss by name; or the samples are (x, y, weight). The
      loss is the weighted sum, divided by what it is divided by without weights. Validation counts all samples alike.
    - `class_weights`, `label_smoothing`, `ignore_index`, `delta`, `beta`: those of a loss by name.
    - `validation`: samples in any form of `data`, or a share of them; in evaluation mode. `monitor` is the metric of
      the best epoch, `patience` so many epochs without a better one end the run (0: never). With `restore_best` the
      trained weights are those of the best epoch.
    - `metrics`: what is measured besides the loss: names, or functions of all outputs and targets as tensors, which
      return a number; `monitor_mode` ("min", "max") says which of its values are better if such a one is monitored.
      `train_metrics` measures them on the training samples, too, in evaluation mode after each epoch; by default so
      where `metrics` are given, but loaders and datasets are read again for it only without `validation`. `top` are
      numbers of best scores among which a label counts as found.
    - `overfit` trains the first so many samples alone, until their loss is below `bound`.
    - `dropout` "off" leaves it out.
    - `check`: compare the step with `.backward()` on the module in float64, on the first batch and on a drawn one, and
      the first updates with `torch.optim`, before anything is compiled. `check_passes` passes of the run are repeated
      in float64.
    - `folder` gets the files, by default one that is removed; with `resume` a run goes on from its checkpoint there,
      which is written every `checkpoint_every` passes (0: after each epoch), and not from the module's weights.
    - With `latent_replay` frozen layers in front of the trained ones run once for each sample; bits are the same.
    - `target` is the machine, by default this one at full speed; `cores`, `buffering`, `budgets` (bytes by level) and
      `outermost` (the last level tensors may lie in) are as in `deployer train`.
    - `canonical_batch` adds gradients up sample by sample, so that bits do not depend on how an update is split into
      passes.
    - `target_column` is the heading of the target in tables; `callback` is one or several of `Callback`, `remarks`
      go to the report, and `warn` is called with what is odd but harmless. `progress` shows a bar on a terminal and in
      a notebook.

    Raises OptionProblem for options without meaning, CaptureMismatch where the captured step is not PyTorch's,
    DatasetMismatch for data that does not fit and a run that diverges or does not learn what it was to learn by heart,
    RunFailed where the check found faults in the run, and what capturing, planning and running raise.
    """
    options = compiler_options(target, buffering, budgets, outermost, cores, canonical_batch)
    given = hyperparameters(
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
    )
    chosen, of_optimizer = choose_loss(loss, given, class_weights)
    limits, groups = grad_limits(max_grad_norm, max_grad_value), parameter_groups(module, param_groups)
    live = isinstance(lr_scheduler, torch.optim.lr_scheduler.LRScheduler)
    rule = update_rule(module, optimizer, lr, of_optimizer, groups, limits, any_rate, apart=live)
    reduction = accumulate if accumulate_grad_batches > 1 or accumulate not in ACCUMULATIONS else ACCUMULATIONS[0]
    scheduler = schedule_spec(lr_scheduler, rule, warmup_steps, lr_scheduler_interval, warn)
    run = TrainingRun(
        epochs=epochs,
        n_steps=n_steps,
        accumulate_grad_batches=accumulate_grad_batches,
        partial_accumulation=partial_accumulation,
        seed=seed,
        shuffle=shuffle is not False,
        drop_last=drop_last,
        patience=patience,
        monitor=monitor,
        monitor_mode=monitor_mode,
        restore_best=restore_best,
        metrics=on_tensors(metrics),
        train_metrics=train_metrics,
        top=tuple(top),
        overfit=overfit,
        bound=bound,
        every=checkpoint_every,
        resume=resume,
        checks=check_passes,
        latent_replay=latent_replay,
    )
    drops = check_dropout(dropout)
    check_column(target_column, data, validation)
    read = reader(read_columns, module, warn, targets=chosen.targets, loss=chosen.name, target_column=target_column)
    ordering = StreamOptions(batch_size, seed, shuffle, drop_last, class_balanced, n_steps)
    samples = run_samples(data, validation, read, ordering, in_memory, warn, sample_weight)
    objective = named_objective(module, chosen, samples.columns)
    first, held_out = samples.first(objective), samples.held_out(objective, read, warn)
    capture = CaptureOptions(seed, drops, check, reduction == ACCUMULATIONS[1])
    begun = as_begun(module, Path(folder) / MODEL) if resume and folder else nullcontext()
    with tempfile.TemporaryDirectory() as scratch, begun:
        captured = capture_objective(module, objective, first, samples.may_ignore, capture, warn)
        place = Path(folder or scratch)
        place.mkdir(parents=True, exist_ok=True)
        model, evaluated = captured.save(Path(scratch) / MODEL), None
        run = replace(run, validation=held_out)
        if held_out is not None or overfit or run.measures_training(samples.stream is None):
            evaluated = capture_outputs(module, objective, captured.batch).save(Path(scratch) / EVALUATED)
        task = Task(
            loss=captured.loss,
            optimizer=rule.choice,
            lr=rule.lr,
            settings=rule.settings,
            groups=rule.groups,
            limits=limits,
            free_rates=any_rate,
            lr_scheduler=scheduler,
            warmup_steps=str(warmup_steps or ""),
            accumulate=reduction,
        )
        first_updates = FirstUpdates(module, objective, captured.step, seed, {} if resume else rule.begun)
        watched = _Watched(place, (model, evaluated), rule, first_updates.check if check else None)
        balanced = class_balanced and samples.stream is None
        fitted = fit_task(
            model,
            samples.source(objective),
            task,
            replace(run, class_balanced=balanced),
            folder=place / RUN,
            classes=samples.classes,
            options=options,
            evaluated=evaluated,
            force=True,
            callback=[watched, *callback_group(callback).callbacks],
            progress=progress,
            inspect=watched.inspect,
            begun=None if resume else watched.begun,
            remarks=(captured.remark, *remarks),
            title=type(module).__name__,
            warn=warn,
        )
        if folder is not None:
            write_forward(captured, place / RUN, warn)
        _raise_faults(fitted, bool(overfit))
    trained = as_trained(_with_counts(captured, fitted), captured)
    load_into(module, trained)
    monitored = with_callbacks(run, callback).monitored
    watched.finish(module, scheduler, [row.metrics.get(monitored, row.loss) for row in fitted.rows])
    return trained


class _Watched(Callback):
    """Writes what was captured to the run's folder once the run begins: `resume` reads it beside the checkpoint.

    Before that the files there are those of the checkpoint of an earlier run, which a call that fails leaves complete.
    It keeps the run's state, from which an optimizer of PyTorch has what PyTorch would have left there.
    """

    def __init__(self, folder: Path, files: Sequence[Path | None], rule: UpdateRule, check: Inspection | None) -> None:
        self.folder, self.files = folder, [path for path in files if path is not None]
        self.rule, self.check = rule, check
        self.posed: tuple[Problem, Program, Updates] | None = None
        self.place = CheckpointPlace()

    def inspect(self, problem: Problem, program: Program, feed: Feed, rates: Array) -> None:
        """Keep what the states' names follow from, and check the first updates unless told otherwise."""
        self.posed = problem, program, feed.updates
        if self.check is not None:
            self.check(problem, program, feed, rates)

    def begun(self, problem: Problem, program: Program) -> dict[str, Array]:
        """The states that the optimizer of PyTorch has at first."""
        return begun_with(problem, program, self.rule.begun)

    def on_segment(self, place: CheckpointPlace, loss: float, lr: float) -> None:
        """Keep the state."""
        self.place = place

    def finish(self, module: nn.Module, scheduler: Any, values: Sequence[float]) -> None:
        """Give the optimizer of PyTorch its states, and step its scheduler, as after the updates that were made."""
        if self.rule.live is None or self.posed is None or not self.place.passes:
            return
        problem, program, updates = self.posed
        made = updates.count if self.place.passes == updates.passes else self.place.passes // updates.each
        if not made:
            return
        states: dict[str, dict[str, Array]] = {name: {} for name in problem.graph.trained.values()}
        for each in state_places(problem, program):
            states[each.parameter][each.key] = self.place.state[each.storage]
        write_state(self.rule.live, module, states, self.rule.begun, made)
        if isinstance(scheduler, RecordedSchedule):
            advance(scheduler.scheduler, scheduler.interval, made, values)

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """Copy the files, unless the folder is the one that they lie in."""
        self.place = place
        for path in self.files:
            if path.parent != self.folder:
                write_file(self.folder / path.name, path.read_bytes())


def _with_counts(captured: ObjectiveStep, fitted: Fitted) -> Fitted:
    """The run with the module's counters of passes among its buffers."""
    passes = len(fitted.losses)
    best = next((row.passes for row in fitted.rows if row.epoch == fitted.best_epoch), passes)
    return replace(
        fitted,
        buffers=fitted.buffers | _counts(captured, passes),
        best_buffers=fitted.best_buffers | _counts(captured, best),
    )


def _raise_faults(fitted: Fitted, learns_by_heart: bool) -> None:
    facts = [("found", "\n".join(fitted.faults))]
    if fitted.faults and (fitted.ended == DIVERGED or learns_by_heart):
        raise DatasetMismatch("the run failed", facts, "a smaller learning rate, or more epochs")
    if fitted.faults:
        raise RunFailed("the check found faults in the run", facts)


def _counts(captured: ObjectiveStep, passes: int) -> dict[str, Array]:
    """Return the module's counters after so many passes, such as the batch counts of running statistics."""
    return {name: np.asarray(begun + captured.step.counts[name] * passes) for name, begun in captured.counts.items()}
