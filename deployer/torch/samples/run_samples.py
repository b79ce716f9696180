"""Samples of a run: arrays in memory, or batches that are read anew in every epoch; and those of validation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn
from deployer.core.operator import Array
from deployer.fitting.data.sources import ReadArrays
from deployer.fitting.data.streams import AnySource
from deployer.fitting.in_process import DataInput
from deployer.torch.data import Columns, gives_samples
from deployer.torch.objective_step import typed
from deployer.torch.objectives import Objective
from deployer.torch.samples.streams import (
    StreamOptions,
    TorchStream,
    is_streamed,
    split_dataset,
    stream,
    validation_stream,
)

Reader = Callable[..., Columns]
"""`read_columns` with what the loss takes, of data and of the samples that are trained."""
SHARE = "validation samples of their own, or in_memory=True"


@dataclass(frozen=True, eq=False)
class RunSamples:
    """The samples of a run before their loss is known: `columns` of all, or of the first batch of a `stream`."""

    columns: Columns
    size: int
    classes: tuple[str, ...]
    stream: TorchStream | None
    validation: Any

    def first(self, objective: Objective) -> dict[str, Array]:
        """The first batch by the names of the objective's data; DatasetMismatch where there is nothing to train on."""
        arrays = typed(objective, self.columns.arrays)
        _check(arrays, self.size, objective)
        rows = np.arange(self.size) % len(arrays[0])
        return {n: x[rows] for n, x in zip(objective.data, arrays, strict=True)}

    def source(self, objective: Objective) -> AnySource:
        """The samples as `fit` takes them."""
        if self.stream is None:
            return self.columns.source(typed(objective, self.columns.arrays))
        return self.stream.as_inputs(_inputs(self.columns, objective))

    def held_out(self, objective: Objective, read: Reader, warn: Warn) -> AnySource | float | None:
        """The validation samples, or their share, as `fit` takes them."""
        given = self.validation
        if given is None or isinstance(given, float | int):
            return given
        if isinstance(given, ReadArrays):
            return given
        if is_streamed(given):
            stream = validation_stream(given, self.size, warn, objective.weighted)
            return stream.as_inputs(_inputs(self.columns, objective))
        others = read(given, self.columns)
        if objective.weighted and not others.weighted:  # validation counts all samples alike
            others = others.with_weights(np.ones(len(others.arrays[0]), np.float32))
        return others.source(typed(objective, others.arrays))

    @property
    def may_ignore(self) -> bool:
        """Whether a label may be below zero."""
        arrays = self.columns.arrays
        return self.stream is not None or any(x.dtype.kind in "iu" and x.size and int(x.min()) < 0 for x in arrays)


def run_samples(
    data: Any,
    validation: Any,
    read: Reader,
    options: StreamOptions,
    in_memory: bool,
    warn: Warn,
    sample_weight: Any = None,
) -> RunSamples:
    """The samples of `data`, and those of `validation`, if any; a loader or a dataset is a stream unless `in_memory`.

    OptionProblem for a share of a loader, which cannot be split, and for options that it has decided.
    """
    classes = tuple(str(name) for name in getattr(data, "classes", None) or ())
    if in_memory or not is_streamed(data):
        size = (getattr(data, "batch_size", None) or 1) if options.batch_size is None else options.batch_size
        columns = read(data, None)
        columns = columns if sample_weight is None else columns.with_weights(sample_weight)
        return RunSamples(columns, size, columns.classes, None, validation)
    if sample_weight is not None:
        cause = "sample_weight has no effect on a loader or a dataset, whose samples come in its own order"
        raise OptionProblem(cause, hint="samples of (x, y, weight), or in_memory=True")
    if options.batch_size is not None and options.batch_size < 1:
        raise OptionProblem(f"batch_size is {options.batch_size}", hint="1 or more")
    if isinstance(validation, float | int):
        if not gives_samples(data):
            raise OptionProblem("validation is a share, and a loader has no samples to choose from", hint=SHARE)
        data, validation = split_dataset(data, validation, options.seed)
    batches = stream(data, options, warn)
    columns = read([batches.raw], None)
    return RunSamples(replace(columns, classes=classes), batches.batch, classes, batches, validation)


def _inputs(columns: Columns, objective: Objective) -> tuple[DataInput, ...]:
    """The names of raw batches, with the types that the model takes."""
    arrays = typed(objective, columns.arrays)
    names = (*columns.inputs, *columns.targets)
    return tuple(DataInput(n, x.shape, str(x.dtype), False) for n, x in zip(names, arrays, strict=True))


def reader(read: Callable[..., Columns], module: Any, warn: Warn, **known: Any) -> Reader:
    """`read_columns` for a module and what its loss takes."""

    def columns(data: Any, like: Columns | None) -> Columns:
        return partial(read, **known)(data, module, warn, like)

    return columns


def _check(arrays: list[Array], batch: int, objective: Objective) -> None:
    """OptionProblem or DatasetMismatch where there is nothing to train on."""
    if len(arrays) < 1 + bool(objective.function):
        raise DatasetMismatch("data has no labels or target", hint="(x, y), or several inputs and then y")
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1 or not counts[0]:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    if batch < 1:
        raise OptionProblem(f"batch_size is {batch}", hint="1 or more")
