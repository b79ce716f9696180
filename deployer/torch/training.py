"""Training of a PyTorch module by generated code, in one call, and its weights back in the module."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from deployer import judging, pipeline
from deployer.core.errors import DatasetMismatch, OptionProblem, RunFailed
from deployer.core.operator import Array, losses
from deployer.core.plan import Options
from deployer.core.target import load
from deployer.frontend.data_numbers import narrowed
from deployer.rates.course import read_course
from deployer.rates.schedules import CONSTANT
from deployer.torch.capture import Captured, capture
from deployer.training.train_graph import Report, build_train_graph
from deployer.verify.tolerances import TOLERANCES


@dataclass(frozen=True)
class Trained:
    """A module's training: the loss of each batch, and the parameters by the module's names.

    `verdict` is that of the check: passed, or explained where units that rounding turned account for a difference.
    `buffers` are running statistics of batch norms and the number of batches behind them, as PyTorch defines both.
    """

    losses: tuple[float, ...]
    weights: dict[str, Array]
    verdict: str
    buffers: dict[str, Array] = field(default_factory=dict)


def train(
    module: nn.Module,
    data: Sequence[Any],
    loss: str,
    optimizer: str = "",
    *,
    learning_rate: float = 0.01,
    batch: int = 1,
    epochs: int = 1,
    target: str = Options.target,
    buffering: str = Options.strategy,
    budgets: Mapping[str, int] | None = None,
    outermost: str = "",
    dropout: str = "on",
    seed: int = 0,
    settings: Mapping[str, float] | None = None,
    schedule: str = "",
    warm_up: str = "",
    folder: Path | None = None,
) -> Trained:
    """Train the module on `data`, its inputs and then its labels or target, samples along the first axis of each.

    Each batch of an epoch is an update, in the order of the data. `loss`, `optimizer` and `settings` are as in
    `deployer train-graph` (an empty optimizer is the usual one), `target`, `buffering`, `budgets` (bytes by level) and
    `outermost` (the last level tensors may lie in, by default the target's) as in `deployer train`, `schedule` and
    `warm_up` the texts of its options. Files go to `folder`, by default to one that is removed. The module keeps its
    weights; `load_into` gives it the trained ones.
    Masks of dropout follow from `seed`; `dropout` "off" leaves it out.
    Batch norms in training mode use the statistics of the batch, and their running statistics are renewed.
    Raises OptionProblem and DatasetMismatch for data that does not fit, RunFailed where the check has something against
    what was computed, and what capturing, planning and running raise.
    """
    arrays = [_array(x, i) for i, x in enumerate(data)]
    _check(arrays, batch, epochs)
    course = read_course(schedule or CONSTANT, warm_up) if schedule or warm_up else None
    with tempfile.TemporaryDirectory() as scratch:
        place = folder or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        captured = capture(module, [torch.from_numpy(x[:batch]) for x in arrays[:-1]], dropout=dropout)
        built = build_train_graph(
            captured.save(place / "module.onnx"), loss, optimizer, learning_rate, captured.trainable, place,
            data=_batches(captured, loss, arrays, batch), settings=dict(settings or {}) or None,
            n_batches=epochs * (len(arrays[0]) // batch), force=folder is not None, course=course,
            seed=seed if captured.drops else None, statistics=True,
        )  # fmt: skip
        options = Options(target, buffering, dict(budgets or {}), outermost=outermost or _last(target))
        trained = _run(built, options, place)
    return replace(trained, buffers=trained.buffers | _counts(module, captured, trained))


def load_into(module: nn.Module, trained: Trained) -> nn.Module:
    """Give the module the trained weights, running statistics and numbers of batches.

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


def _counts(module: nn.Module, captured: Captured, trained: Trained) -> dict[str, Array]:
    """What the module counts, such as the numbers of batches behind running statistics, after all passes."""
    buffers = {name: buffer.detach().cpu().numpy() for name, buffer in module.named_buffers()}
    passes = len(trained.losses)
    return {name: np.asarray(buffers[name] + each * passes) for name, each in captured.counts.items() if each}


def _array(values: Any, index: int) -> Array:
    """Floats as float32 and integers as int64; DatasetMismatch for what is neither, and for numbers beyond float32."""
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    place, facts = f"data: array {index}", [("found", f"{array.dtype}{list(array.shape)}")]
    if array.dtype.kind not in "fiub" or not array.ndim:
        raise DatasetMismatch(
            f"{place} is no array of numbers, samples along its first axis", facts, "floats or integers"
        )
    return narrowed(array, "float32", place, facts) if array.dtype.kind == "f" else array.astype(np.int64)


def _check(arrays: Sequence[Array], batch: int, epochs: int) -> None:
    """OptionProblem or DatasetMismatch where there is no whole number of batches."""
    if len(arrays) < 2:
        raise DatasetMismatch("data has no labels or target", hint="(x, y), or several inputs and then y")
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    if batch < 1 or epochs < 1:
        raise OptionProblem(f"batch is {batch} and epochs {epochs}", hint="1 or more of each")
    if not counts[0] or counts[0] % batch:
        rest = counts[0] % batch
        hint = f"{counts[0] - rest} samples, or a batch that divides {counts[0]}"
        raise DatasetMismatch(f"{counts[0]} samples are no whole number of batches of {batch}", hint=hint)


def _batches(captured: Captured, loss: str, arrays: Sequence[Array], batch: int) -> dict[str, Array]:
    """The data by the training graph's names, batches along the first axis."""
    declared = losses().get(loss)
    if declared is None or declared.loss is None:
        raise OptionProblem(f"there is no loss {loss!r}", hint=f"one of {', '.join(losses())}")
    names = (*captured.inputs, declared.loss.target)
    if len(names) != len(arrays):
        raise DatasetMismatch(f"the module has {len(names) - 1} inputs, and data {len(arrays) - 1}", hint="one of each")
    count = len(arrays[0]) // batch
    return {n: x.reshape(count, batch, *x.shape[1:]) for n, x in zip(names, arrays, strict=True)}


def _last(target: str) -> str:
    return load(target).levels[-1].name


def _run(built: Report, options: Options, place: Path) -> Trained:
    case = pipeline.load_training(built.train)
    tiling, plan = pipeline.plan_case(case, options)
    directory = place / "code"
    pipeline.write_case(case, tiling, plan, directory)
    pipeline.build_case(plan, directory)
    outcome = pipeline.execute(case, plan, directory)
    result, _ = judging.judged(case, plan, outcome, TOLERANCES.weight)
    if not result.passed:
        raise RunFailed("the check has something against what was computed", [("found", "\n".join(result.faults))])
    weights = {built.trained[n]: array for n, array in outcome.arrays.items() if n in built.trained}
    buffers = {built.running[n]: array for n, array in outcome.arrays.items() if n in built.running}
    return Trained(outcome.losses, weights, result.verdict, buffers)
