"""Samples that are read anew in every epoch, batch by batch, and never lie in memory together."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.fitting.data.sources import Feed, Source
from deployer.frontend.data_numbers import check_classes, check_counts, check_finite, narrowed
from deployer.training.batches import taken_arrays
from deployer.training.order import Samples

Batch = tuple[Array, ...]


@runtime_checkable
class BatchSource(Protocol):
    """Batches of samples, one array for each data input, target last."""

    batch: int
    """Samples of a whole batch."""
    passes: int
    """Batches of an epoch."""
    name: str
    """The source in messages."""

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, counted from 0, read anew; the last one may have fewer samples."""

    def measured(self) -> Iterator[Batch]:
        """The batches of an epoch that are measured: reading them changes nothing that is trained on later."""


AnySource: TypeAlias = Source | BatchSource
"""A source that is read at once, or batches."""


@dataclass(frozen=True, eq=False)
class SampleStream(Samples):
    """Samples of a source of batches, of which none is kept; `checks` see each batch that is read."""

    source: BatchSource | None = None
    checks: list[Callable[[Batch, int], None]] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)

    @property
    def origin(self) -> BatchSource:
        """The source."""
        assert self.source is not None, "a stream has a source"
        return self.source

    @property
    def count(self) -> int:
        """Samples of an epoch: those of the last one that was read to its end, else those of whole batches."""
        return self.seen[-1] if self.seen else self.origin.passes * self.batch

    def subset(self, indices: Array) -> Samples:
        """Raise OptionProblem: samples of a stream have no numbers."""
        cause = f"{self.origin.name} gives batches, of which no part can be chosen"
        raise OptionProblem(cause, hint="validation samples of their own, or in_memory=True")

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch in the types of the data inputs; the first samples of it fill up an incomplete one.

        DatasetMismatch for a batch that does not fit, and for another number of batches than the source has said.
        """
        return self._checked(self.origin.batches(number), number)

    def _checked(self, batches: Iterator[Batch], number: int) -> Iterator[Batch]:
        source, rows, made = self.origin, 0, 0
        first: Batch = ()
        for raw in batches:
            if made == source.passes:
                raise self._miscounted(number, f"more than {made}")
            place = f"{source.name}: batch {made} of epoch {number + 1}"
            count = self._rows(raw, place)
            batch = tuple(self._typed(x, name, place) for x, name in zip(raw, self.types, strict=True))
            first = first or batch
            if count < self.batch:
                batch = self._filled(batch, first)
            shaped = tuple(x.reshape(kind.shape) for x, kind in zip(batch, self.types.values(), strict=True))
            for check in self.checks:
                check(shaped, made)
            rows, made = rows + count, made + 1
            yield shaped
        if made < source.passes:
            raise self._miscounted(number, str(made))
        self.seen[:] = [rows]

    def in_order(self) -> Iterator[Batch]:
        """The batches of one epoch that is measured."""
        return self._checked(self.origin.measured(), 0)

    def _miscounted(self, number: int, found: str) -> DatasetMismatch:
        facts = [("batches said", str(self.origin.passes)), ("found", found), ("epoch", str(number + 1))]
        return DatasetMismatch(f"{self.origin.name} has another number of batches than it says", facts, "n_steps=...")

    def _rows(self, raw: Sequence[Array], place: str) -> int:
        counts = [len(x) if x.ndim else 0 for x in raw]
        if len(raw) != len(self.types) or len(set(counts)) > 1 or not counts[0]:
            facts = [("expected", ", ".join(self.types)), ("found", ", ".join(str(list(x.shape)) for x in raw))]
            raise DatasetMismatch(f"{place} has other arrays than the model takes", facts, "as many samples of each")
        if counts[0] > self.batch:
            facts = [("samples", str(counts[0])), ("batch size", str(self.batch))]
            raise DatasetMismatch(f"{place} has more samples than a batch", facts, f"batch_size={counts[0]}")
        return counts[0]

    def _typed(self, array: Array, name: str, place: str) -> Array:
        kind = self.types[name]
        where, facts = f"{place}: {name!r}", [("expected", str(kind)), ("found", f"{array.dtype}{list(array.shape)}")]
        if array[:1].size * self.batch != kind.size or array.dtype.kind not in (
            "f" if kind.dtype == "float32" else "biu"
        ):
            raise DatasetMismatch(f"{where} has another type or shape", facts, "the shape of the first batch")
        narrow = array if array.dtype == kind.dtype else narrowed(array, kind.dtype, where, facts)
        check_finite(narrow, where)
        return narrow

    def _filled(self, batch: Batch, first: Batch) -> Batch:
        both = [np.concatenate([x, *[y] * self.batch]) for x, y in zip(batch, first, strict=True)]
        return tuple(x[: self.batch] for x in both)


@dataclass(frozen=True, eq=False)
class StreamFeed(Feed):
    """Program inputs of each pass of a run over a stream, read as passes come; earlier batches are forgotten."""

    rows: dict[int, Batch] = field(default_factory=dict)
    reader: list[Iterator[Batch]] = field(default_factory=list)

    def bare(self, index: int) -> Batch:
        """Data inputs of a pass, with a share of 1; passes before the last window read are gone."""
        while index not in self.rows:
            number = 1 + max(self.rows, default=-1)
            if not self.reader or number % self.order.passes == 0:
                assert isinstance(self.samples, SampleStream), "a stream feeds itself"
                self.reader[:] = [self.samples.epoch(number // self.order.passes)]
            self.rows[number] = next(self.reader[0])
            if (number + 1) % self.order.passes == 0:
                next(self.reader[0], None)  # the epoch's own end, with its checks
        return (*self.rows[index], *self.whole)

    def passes(self, first: int, last: int) -> Sequence[Batch]:
        """The data inputs of the passes from `first` to the one before `last`."""
        begin = self.updates.window(first).start
        for index in [index for index in self.rows if index < begin]:
            if index + 1 in self.rows:  # the last one tells where the reader is
                del self.rows[index]
        return super().passes(first, last)


def stream_of(source: BatchSource, types: Mapping[str, TensorType], targets: Collection[str]) -> SampleStream:
    """The samples of a source for data inputs of these types; DatasetMismatch where its batches have another size."""
    first = next(iter(types.values()))
    batch = first.shape[0] if first.shape else 1
    if batch != source.batch:
        facts = [("model", str(batch)), (source.name, str(source.batch))]
        raise DatasetMismatch(f"{source.name} has another batch size than the model", facts, f"batch_size={batch}")
    taken = taken_arrays(types, source.passes * batch, targets)
    return SampleStream(types, {}, batch, taken=taken, source=source)


def watch(stream: Samples | None, program: Program) -> None:
    """Let a stream refuse labels that are no classes, and batches without a label that counts."""
    if not isinstance(stream, SampleStream):
        return
    names, place = list(stream.types), stream.origin.name

    def check(batch: Batch, number: int) -> None:
        values = dict(zip(names, batch, strict=True))
        check_classes(program, values, f"{place}, batch {number}:", from_front=True)
        shares = [np.ones(program.tensors[n].type.shape, np.float32) for n in program.data[len(names) :]]
        check_counts(program, [(*batch, *shares)], f"{place}: batch {number},")

    stream.checks.append(check)
