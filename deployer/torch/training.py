"""Training of a PyTorch module by generated code, in one call, and its weights back in the module."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, RunFailed, python_warning
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import load, native
from deployer.fitting.fit import Fitted, fit
from deployer.fitting.loop import DIVERGED
from deployer.torch.capture import Captured, capture
from deployer.torch.data import read_columns

MODEL, RUN = "module.onnx", "run"
"""The captured model and the folder of the run, in the folder of a call."""


def train(
    module: nn.Module,
    data: Any,
    loss: str,
    optimizer: str = "",
    *,
    batch: int | None = None,
    target: str = "",
    buffering: str = Options.strategy,
    budgets: Mapping[str, int] | None = None,
    outermost: str = "",
    dropout: str = "on",
    folder: Path | str | None = None,
    **more: Any,
) -> Fitted:
    """Train the module on `data`: its inputs and then its labels or target, samples along the first axis of each.

    `data` is a tuple of arrays or tensors, an iterable of batches of these, such as a DataLoader, read once, a Dataset
    of single samples, a folder of images, or a file, as `read_columns` has them; so may `validation` be, or a share.
    Its batch size, if it has one, is the default of `batch`, and else that is 1. `loss` and `optimizer` are as in
    `deployer train-graph`, `more` are further options of `deployer.fit` (learning_rate, epochs, schedule, ...).
    `target` is the machine, by default this one at full speed; `buffering`, `budgets` (bytes by level) and `outermost`
    (the last level tensors may lie in, by default the target's) are as in `deployer train`. Files go to `folder`, by
    default to one that is removed. The module keeps its weights; `load_into` gives it the trained ones.
    Masks of dropout follow from `seed`, as the order of the samples does; `dropout` "off" leaves it out.
    Batch norms in training mode use the statistics of the batch, and their running statistics are renewed; validation
    is without dropout and with running statistics.
    Raises OptionProblem for options without meaning, DatasetMismatch for data that does not fit and a run that diverges
    or does not learn what it was to learn by heart, RunFailed where the check has something against what was computed,
    and what capturing, planning and running raise.
    """
    machine = load(target) if target else native()
    options = Options(machine.name, buffering, dict(budgets or {}), outermost=outermost or machine.levels[-1].name)
    size = (getattr(data, "batch_size", None) or 1) if batch is None else batch
    warn = more.get("warn", python_warning)
    columns = read_columns(data, module, warn)
    arrays, held_out = columns.arrays, more.get("validation")
    if held_out is not None and not isinstance(held_out, float | int):
        more["validation"] = tuple(read_columns(held_out, module, warn, columns.classes).arrays)
    _check(arrays, size)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(folder or scratch)
        place.mkdir(parents=True, exist_ok=True)
        rows = np.arange(size) % len(arrays[0])
        captured = capture(module, [torch.from_numpy(x[rows]) for x in arrays[:-1]], dropout=dropout)
        if captured.unused:
            facts = [("not trained", ", ".join(captured.unused))]
            warn(DeployerWarning("parameters of the module are read by no operator", facts))
        model = captured.save(place / MODEL)
        more = {"trainable": captured.trainable, "classes": columns.classes, **more}
        fitted = fit(model, tuple(arrays), loss, optimizer, folder=place / RUN, options=options, force=True, **more)
    facts = [("found", "\n".join(fitted.faults))]
    if fitted.faults and (fitted.ended == DIVERGED or more.get("overfit")):
        raise DatasetMismatch("the run came to nothing", facts, "a smaller learning rate, or more epochs")
    if fitted.faults:
        raise RunFailed("the check has something against what was computed", facts)
    passes = len(fitted.losses)
    best = next((row.passes for row in fitted.rows if row.epoch == fitted.best_epoch), passes)
    return replace(
        fitted,
        buffers=fitted.buffers | _counts(module, captured, passes),
        best_buffers=fitted.best_buffers | _counts(module, captured, best),
    )


def load_into(module: nn.Module, trained: Fitted) -> nn.Module:
    """Give the module the trained weights, running statistics and numbers of batches, in place.

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


def _counts(module: nn.Module, captured: Captured, passes: int) -> dict[str, Array]:
    """What the module counts, such as the numbers of batches behind running statistics, after so many passes."""
    buffers = {name: buffer.detach().cpu().numpy() for name, buffer in module.named_buffers()}
    return {name: np.asarray(buffers[name] + each * passes) for name, each in captured.counts.items() if each}


def _check(arrays: Sequence[Array], batch: int) -> None:
    """OptionProblem or DatasetMismatch where there is nothing to train on."""
    if len(arrays) < 2:
        raise DatasetMismatch("data has no labels or target", hint="(x, y), or several inputs and then y")
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1 or not counts[0]:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    if batch < 1:
        raise OptionProblem(f"batch is {batch}", hint="1 or more")
