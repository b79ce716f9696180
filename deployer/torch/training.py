"""Training of a PyTorch module by generated code, in one call, and its weights back in the module."""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deployer.core.errors import DatasetMismatch, OptionProblem, RunFailed
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import load, native
from deployer.fitting.fit import Fitted, fit
from deployer.fitting.loop import DIVERGED
from deployer.fitting.sources import read_source, to_array
from deployer.frontend.data_numbers import narrowed
from deployer.torch.capture import Captured, capture

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

    `data` is a tuple of arrays or tensors, or an iterable of batches of these, such as a DataLoader, read once;
    its batch size, if it has one, is the default of `batch`, and else that is 1. `loss` and `optimizer` are as in
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
    arrays = _arrays(data)
    _check(arrays, size)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(folder or scratch)
        place.mkdir(parents=True, exist_ok=True)
        rows = np.arange(size) % len(arrays[0])
        captured = capture(module, [torch.from_numpy(x[rows]) for x in arrays[:-1]], dropout=dropout)
        more = {"trainable": captured.trainable, **more}
        model = captured.save(place / MODEL)
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


def _arrays(data: Any) -> list[Array]:
    """The arrays of the data in order, with the dtypes of a module's inputs."""
    if not isinstance(data, list | tuple) or not all(hasattr(x, "shape") for x in data):
        batches = iter(data)
        first = list(itertools.islice(batches, 1))  # a generator is read once
        names = [str(number) for number in range(len(first[0]) if first else 0)]
        data = tuple(read_source(itertools.chain(first, batches), names).values())
    return [_array(x, i) for i, x in enumerate(data)]


def _array(values: Any, index: int) -> Array:
    """Floats as float32 and integers as int64; DatasetMismatch for one number, and for numbers beyond float32."""
    array = to_array(values)
    place, facts = f"data: array {index}", [("found", f"{array.dtype}{list(array.shape)}")]
    if not array.ndim:
        raise DatasetMismatch(f"{place} is one number", facts, "arrays, samples along their first axis")
    return narrowed(array, "float32", place, facts) if array.dtype.kind == "f" else array.astype(np.int64)


def _check(arrays: Sequence[Array], batch: int) -> None:
    """OptionProblem or DatasetMismatch where there is nothing to train on."""
    if len(arrays) < 2:
        raise DatasetMismatch("data has no labels or target", hint="(x, y), or several inputs and then y")
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1 or not counts[0]:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    if batch < 1:
        raise OptionProblem(f"batch is {batch}", hint="1 or more")
