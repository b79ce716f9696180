"""Data loaders and datasets of PyTorch as batches that are read anew in every epoch."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn
from deployer.core.operator import Array
from deployer.fitting.data.streams import Batch, BatchSource
from deployer.fitting.in_process import DataInput
from deployer.torch.data import collated, gives_samples
from deployer.torch.samples.conversion import Conversion, flat
from deployer.torch.tracing.module_state import random_state_kept
from deployer.training.order import Order, balanced

LABELS = ("targets", "labels")
"""Attributes under which datasets have the class numbers of their samples."""


@dataclass(frozen=True)
class StreamOptions:
    """The batch size, or none, the order of the samples of a dataset, and the passes of a run without epochs."""

    batch_size: int | None = None
    seed: int = 0
    shuffle: bool | None = None
    drop_last: bool = False
    class_balanced: bool = False
    n_steps: int | None = None


@dataclass(frozen=True, eq=False)
class TorchStream(BatchSource):
    """Raw batches of an epoch by `read`, as tuples in the order of `inputs`; `raw` is the first one.

    With `regroup` batches of any size are put together to whole ones, as validation may. With `weighted` the last input
    is a weight for each sample, 1 where a batch has none.
    """

    name: str
    batch: int
    passes: int
    read: Callable[[int], Iterator[Any]]
    raw: Any
    conversion: Conversion
    inputs: tuple[DataInput, ...] = ()
    regroup: bool = False
    weighted: bool = False

    def as_inputs(self, inputs: tuple[DataInput, ...]) -> "TorchStream":
        """The same with the names and types that the model's inputs have."""
        return replace(self, inputs=inputs)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, counted from 0."""
        found = (self._arrays(flat(raw)) for raw in self.read(epoch))
        return _regrouped(found, self.batch) if self.regroup else found

    def measured(self) -> Iterator[Batch]:
        """The batches of an epoch; generators of random numbers are as before, unless a loop would have read them."""
        if self.regroup:  # validation, which draws what it draws in a loop of PyTorch
            yield from self.batches(0)
            return
        with random_state_kept():
            yield from self.batches(0)

    def _arrays(self, raw: Any) -> Batch:
        values = [raw[x.name] for x in self.inputs if x.name in raw] if isinstance(raw, Mapping) else list(raw)
        if self.weighted and len(values) == len(self.inputs) - 1:
            values.append(np.ones(len(values[-1]), np.float32))
        if len(values) != len(self.inputs):
            names = ", ".join(x.name for x in self.inputs)
            found = ", ".join(map(str, raw)) if isinstance(raw, Mapping) else f"{len(values)} arrays"
            raise DatasetMismatch(f"a batch of {self.name} has other arrays", [("expected", names), ("found", found)])
        return tuple(self.conversion.array(v, x) for v, x in zip(values, self.inputs, strict=True))


def _regrouped(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same samples in batches of a size, the last one of what is left."""
    left: Batch = ()
    for batch in batches:
        left = tuple(np.concatenate(pair) for pair in zip(left, batch, strict=True)) if left else batch
        while len(left[0]) >= size:
            yield tuple(x[:size] for x in left)
            left = tuple(x[size:] for x in left)
    if left and len(left[0]):
        yield left


def is_streamed(data: Any) -> bool:
    """Whether data can be read again in every epoch: a DataLoader, a Dataset, or an iterable that restarts."""
    if isinstance(data, Mapping | str | bytes | list | tuple) or hasattr(data, "shape") or hasattr(data, "__fspath__"):
        return False
    return gives_samples(data) or isinstance(data, IterableDataset) or (
        isinstance(data, Iterable) and not hasattr(data, "__next__")
    )  # fmt: skip


def stream(data: Any, options: StreamOptions, warn: Warn, name: str = "the loader") -> TorchStream:
    """The batches of a loader, a dataset or another iterable, for training.

    OptionProblem for options that the loader has decided, and for a length that nothing says.
    """
    if isinstance(data, IterableDataset):
        data = DataLoader(data, batch_size=options.batch_size or 1, drop_last=options.drop_last)
    elif gives_samples(data):
        return _of_dataset(data, options, warn)
    decided = {"shuffle": options.shuffle, "class_balanced": options.class_balanced or None}
    for option in (option for option, value in decided.items() if value is not None):
        how = "shuffle=True" if option == "shuffle" else "sampler=WeightedRandomSampler(...)"
        cause = f"{option} has no effect on a loader, which has an order itself"
        raise OptionProblem(cause, hint=f"DataLoader(..., {how}), or in_memory=True")
    first = _first(data, name)
    rows = _rows(first)
    size = options.batch_size or getattr(data, "batch_size", None) or rows
    own = getattr(data, "batch_size", None) or rows
    if size != own:
        facts = [("batch_size", str(size)), ("the loader's", str(own))]
        raise OptionProblem("the loader has another batch size", facts, "leave batch_size out, or in_memory=True")
    drops = options.drop_last and not getattr(data, "drop_last", False)

    def read(epoch: int) -> Iterator[Any]:
        return (raw for raw in data if not drops or _rows(raw) == size)

    return TorchStream(name, size, _passes(data, size, drops, options), read, first, Conversion(warn))


def _passes(data: Any, size: int, drops: bool, options: StreamOptions) -> int:
    """Batches of an epoch, without an incomplete one where that is dropped."""
    try:
        count = len(data)
        return len(data.sampler) // size if drops else count
    except (TypeError, AttributeError):
        if options.n_steps is not None and not drops:
            return options.n_steps
    hint = "DataLoader(..., drop_last=True)" if drops else "n_steps=..., the number of passes, or a __len__"
    raise OptionProblem("nothing says how many batches an epoch has", hint=hint)


def validation_stream(data: Any, batch: int, warn: Warn, weighted: bool = False) -> TorchStream:
    """The batches of validation samples, in batches of that size whatever the loader's is.

    With `weighted` they may come without the weights that training samples have.
    """
    name = "the validation loader"
    loader = DataLoader(data, batch_size=batch, collate_fn=collated) if gives_samples(data) else data
    first = _first(loader, name)
    try:
        count = len(loader.dataset) if hasattr(loader, "dataset") else sum(_rows(raw) for raw in loader)
    except TypeError:
        count = sum(_rows(raw) for raw in loader)
    conversion, passes = Conversion(warn), math.ceil(count / batch)
    return TorchStream(name, batch, passes, lambda epoch: iter(loader), first, conversion, (), True, weighted)


def split_dataset(data: Any, share: float, seed: int) -> tuple[Any, Any]:
    """A dataset without a share of its samples, drawn by the seed, and that share, as arrays are split."""
    count = len(data)
    order, held_count = np.random.default_rng([seed, count]).permutation(count), round(count * share)
    if not 0 < held_count < count:
        facts = [("samples", str(count)), ("share", f"{share:g}")]
        raise DatasetMismatch("the split leaves no samples on one side", facts, "another share, or a validation set")
    rest, held = np.sort(order[held_count:]).tolist(), np.sort(order[:held_count]).tolist()
    return Subset(data, rest), Subset(data, held)


def _of_dataset(data: Any, options: StreamOptions, warn: Warn) -> TorchStream:
    """A dataset of single samples, in the order that arrays have."""
    size = options.batch_size or 1
    if not len(data):
        raise DatasetMismatch("the dataset has no samples", hint="a dataset with samples")
    order = Order(len(data), size, options.seed, options.shuffle is not False, options.drop_last)
    if options.class_balanced:
        order = balanced(order, _labels(data), order.shuffled)

    def batch(indices: Array) -> Any:
        return collated([data[int(i)] for i in indices])

    def read(epoch: int) -> Iterator[Any]:
        drawn = order.of_epoch(epoch)
        return (batch(drawn[i * size : (i + 1) * size]) for i in range(order.passes))

    with random_state_kept():
        first = flat(batch(np.arange(size) % len(data)))
    return TorchStream("the dataset", size, order.passes, read, first, Conversion(warn))


def _labels(data: Dataset[Any]) -> Array:
    """The class numbers that a dataset has as an attribute; OptionProblem where it has none."""
    if isinstance(data, Subset):
        return np.asarray(_labels(data.dataset)[np.asarray(data.indices)])
    found = next((getattr(data, name) for name in LABELS if hasattr(data, name)), None)
    if found is None:
        hint = "a DataLoader with WeightedRandomSampler, or in_memory=True"
        raise OptionProblem(f"class_balanced needs the dataset's labels, as {' or '.join(LABELS)}", hint=hint)
    return np.asarray(found)


def _first(data: Any, name: str) -> Any:
    """The first batch; PyTorch's random numbers are as before."""
    with random_state_kept():
        for raw in data:
            return flat(raw)
    raise DatasetMismatch(f"{name} gives no batches", hint="samples")


def _rows(raw: Any) -> int:
    """Samples of a batch."""
    raw = flat(raw)
    values = list(raw.values()) if isinstance(raw, Mapping) else list(raw)
    return len(values[0]) if values else 0
