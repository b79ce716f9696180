"""Training of a PyTorch module by generated code, in one call, and its weights back in the module."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, RunFailed, python_warning
from deployer.core.operator import Array, losses
from deployer.core.plan import Options
from deployer.core.target import load, native
from deployer.core.traits.training import Loss
from deployer.fitting.fit import Fitted, fit
from deployer.fitting.loop import DIVERGED
from deployer.lr_schedules.windows import ACCUMULATIONS
from deployer.torch.capture import capture_outputs
from deployer.torch.check import check_step
from deployer.torch.data import ANY, NONE, ONE, Columns, read_columns
from deployer.torch.objectives import LossSpec, Objective, objective_of
from deployer.torch.step import CapturedStep, capture_step
from deployer.torch.updates import FirstUpdates
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import split_settings
from deployer.training.tables import check_column

MODEL, EVALUATED, RUN = "module.onnx", "evaluated.onnx", "run"
"""The captured step, the forward pass in evaluation, and the folder of the run, in the folder of a call."""


def train(
    module: nn.Module,
    data: Any,
    loss: LossSpec,
    optimizer: str = "",
    *,
    batch: int | None = None,
    target: str = "",
    target_column: str = "",
    buffering: str = Options.strategy,
    budgets: Mapping[str, int] | None = None,
    outermost: str = "",
    dropout: str = "on",
    check: bool = True,
    folder: Path | str | None = None,
    **more: Any,
) -> Fitted:
    """Train the module on `data`: its inputs and then its labels or target, samples along the first axis of each.

    `data` is a tuple of arrays or tensors, an iterable of batches of these, such as a DataLoader, read once, a Dataset
    of single samples, a folder of images, or a file, as `read_columns` has them; so may `validation` be, or a share.
    Its batch size, if it has one, is the default of `batch`, and else that is 1. `loss` is a name as in
    `deployer train-graph`, a function or module of (output, target), or "model" where the module returns its loss;
    `optimizer` is a name. `more` are further options of `deployer.fit` (learning_rate, epochs, schedule, ...).
    PyTorch itself differentiates: what it stops, scales or replaces on the way is so here, and buffers that forward
    writes are renewed in each pass. Before anything is compiled, the step is compared with `.backward()` on the module
    in float64, on the first batch and on a drawn one, and the first updates with `torch.optim`; `check=False` leaves
    that out, and the report says so.
    `target_column` is the heading of the target in tables, where it is not one of the usual ones.
    `target` is the machine, by default this one at full speed; `buffering`, `budgets` (bytes by level) and `outermost`
    (the last level tensors may lie in, by default the target's) are as in `deployer train`. Files go to `folder`, by
    default to one that is removed. The module keeps its weights; `load_into` gives it the trained ones.
    Random numbers, such as masks of dropout, follow from `seed`, as the order of the samples does; `dropout` "off"
    leaves dropout out. Validation is in evaluation mode, with running statistics.
    Raises OptionProblem for options without meaning, CaptureMismatch where the captured step is not PyTorch's,
    DatasetMismatch for data that does not fit and a run that diverges or does not learn what it was to learn by heart,
    RunFailed where the check found faults in the run, and what capturing, planning and running raise.
    """
    if dropout not in ("on", "off"):
        raise OptionProblem(f"dropout is {dropout!r}", hint="'on' or 'off'")
    machine = load(target) if target else native()
    options = Options(machine.name, buffering, dict(budgets or {}), outermost=outermost or machine.levels[-1].name)
    size = (getattr(data, "batch_size", None) or 1) if batch is None else batch
    warn = more.get("warn", python_warning)
    held_out = more.get("validation")
    check_column(target_column, data, held_out)
    named = loss if isinstance(loss, str) else ""
    read = partial(read_columns, targets=_targets(loss), loss=named, target_column=target_column)
    columns = read(data, module, warn)
    objective = _objective(module, loss, columns, more)
    arrays = _typed(objective, columns.arrays)
    if held_out is not None and not isinstance(held_out, float | int):
        others = read(held_out, module, warn, columns)
        more["validation"] = others.source(_typed(objective, others.arrays))
    _check(arrays, size, objective)
    rows = np.arange(size) % len(arrays[0])
    first = {n: torch.from_numpy(x[rows]) for n, x in zip(objective.data, arrays, strict=True)}
    is_mean = more.get("accumulate") == ACCUMULATIONS[1]
    seed = more.get("seed", 0)
    ignores = any(x.dtype.kind in "iu" and x.size and int(x.min()) < 0 for x in arrays)
    drops = dropout == "on"
    step = capture_step(module, objective, first, seed=seed, share=is_mean, drops=drops, ignores=ignores)
    remark = UNCHECKED
    if check:
        found = check_step(step, module, objective, first, seed=seed)
        remark = f"{CHECKED}: at most {100 * found.share:.1g} % of the bound ({found.tensor})"
    if step.unused:
        facts = [("not trained", ", ".join(step.unused))]
        warn(DeployerWarning("parameters of the module get no gradient", facts))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(folder or scratch)
        place.mkdir(parents=True, exist_ok=True)
        model = _save(step, objective, place / MODEL)
        if held_out is not None or more.get("overfit"):
            more["evaluated"] = capture_outputs(module, objective, first).save(place / EVALUATED)
        more = {"classes": columns.classes, **more}
        more.pop("class_weights", None)
        given = (objective.name or OWN_LOSS, optimizer)
        more["inspect"] = FirstUpdates(module, objective, step, seed).check if check else None
        more["remarks"] = (remark, *more.get("remarks", ()))
        fitted = fit(model, columns.source(arrays), *given, folder=place / RUN, options=options, force=True, **more)
    _raise_faults(fitted, bool(more.get("overfit")))
    passes = len(fitted.losses)
    best = next((row.passes for row in fitted.rows if row.epoch == fitted.best_epoch), passes)
    return replace(
        fitted,
        buffers=fitted.buffers | _counts(module, step, passes),
        best_buffers=fitted.best_buffers | _counts(module, step, best),
    )


CHECKED = "the captured step was compared with PyTorch in float64"
UNCHECKED = "the captured step was not compared with PyTorch, as asked"


def _raise_faults(fitted: Fitted, learns_by_heart: bool) -> None:
    facts = [("found", "\n".join(fitted.faults))]
    if fitted.faults and (fitted.ended == DIVERGED or learns_by_heart):
        raise DatasetMismatch("the run failed", facts, "a smaller learning rate, or more epochs")
    if fitted.faults:
        raise RunFailed("the check found faults in the run", facts)


def load_into(module: nn.Module, trained: Fitted) -> nn.Module:
    """Give the module the trained weights, buffers and numbers of batches, in place.

    KeyError, and nothing changed, where it has no parameter or buffer of a name.
    """
    tensors = dict(module.named_parameters()), dict(module.named_buffers())
    given = trained.weights, trained.buffers
    for known, arrays, what in zip(tensors, given, ("parameters", "buffers"), strict=True):
        missing = sorted(arrays.keys() - known.keys())
        if missing:
            raise KeyError(f"the module has no {what} {missing}")
    with torch.no_grad():
        for known, arrays in zip(tensors, given, strict=True):
            for name, array in arrays.items():
                known[name].copy_(torch.from_numpy(array.reshape(known[name].shape).copy()))
    return module


def _targets(loss: LossSpec) -> str:
    """Number of data arrays that the loss takes."""
    return ANY if not isinstance(loss, str) else NONE if loss == OWN_LOSS else ONE


def _objective(module: nn.Module, loss: LossSpec, columns: Columns, more: dict[str, Any]) -> Objective:
    """The objective; takes the settings of a named loss out of the other options, which keep those of the optimizer."""
    own, rest = split_settings(more.get("settings") or {}, losses().get(loss) if isinstance(loss, str) else None)
    named = {n: v for n, v in (more.get("settings") or {}).items() if n not in rest}
    if own:
        more["settings"] = rest
    weights = more.get("class_weights") or ()
    inputs, targets = columns.inputs, columns.targets
    if isinstance(loss, str) and loss in losses() and len(targets) == 1:
        declared = losses()[loss].role(Loss)
        assert declared is not None
        targets = (declared.target,)
    return objective_of(module, loss, inputs, targets, keywords=columns.keywords, settings=named, class_weights=weights)


def _typed(objective: Objective, arrays: Sequence[Array]) -> list[Array]:
    """The arrays; whole numbers as the target of a loss that compares floats are such."""
    declared = losses()[objective.name].role(Loss) if objective.name else None
    floats = declared is not None and declared.class_axis is None
    return [x.astype(np.float32) if floats and i == len(arrays) - 1 else x for i, x in enumerate(arrays)]


def _save(step: CapturedStep, objective: Objective, path: Path) -> Path:
    names = dict(zip(objective.data, step.data, strict=False))
    targets = tuple(names[n] for n in objective.targets)
    known = {"loss": objective.name, "settings": dict(objective.settings), "class_weights": objective.weights}
    return step.save(path, **known, targets=targets)


def _counts(module: nn.Module, step: CapturedStep, passes: int) -> dict[str, Array]:
    """Return the module's counters after so many passes, such as the batch counts of running statistics."""
    buffers: dict[str, Tensor] = {name: buffer.detach().cpu() for name, buffer in module.named_buffers()}
    counts = {name: each for name, each in step.counts.items() if each and name in buffers}
    return {name: np.asarray(buffers[name].numpy() + each * passes) for name, each in counts.items()}


def _check(arrays: Sequence[Array], batch: int, objective: Objective) -> None:
    """OptionProblem or DatasetMismatch where there is nothing to train on."""
    if len(arrays) < 1 + bool(objective.function):
        raise DatasetMismatch("data has no labels or target", hint="(x, y), or several inputs and then y")
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1 or not counts[0]:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    if batch < 1:
        raise OptionProblem(f"batch is {batch}", hint="1 or more")
