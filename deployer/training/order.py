"""Samples of each pass: epochs of whole batches, in an order that follows from a seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.lr_schedules.windows import Updates
from deployer.training.tables import Taken


@dataclass(frozen=True)
class Order:
    """The order of `count` samples in batches of `batch`.

    If the batch size does not divide the number of samples, the last batch of an epoch is filled up with the first
    samples of the epoch's own order; with `drop_last` the incomplete batch is dropped.
    """

    count: int
    batch: int
    seed: int = 0
    shuffled: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        """Raise DatasetMismatch if an epoch has no pass."""
        if not self.passes:
            facts = [("samples", str(self.count)), ("batch", str(self.batch))]
            raise DatasetMismatch(
                "an epoch has no complete batch", facts, "more samples, a smaller batch, or no --drop-last"
            )

    @property
    def left(self) -> int:
        """Samples of an epoch in its incomplete last batch."""
        return self.count % self.batch

    @property
    def passes(self) -> int:
        """Passes of an epoch."""
        return self.count // self.batch + int(not self.drop_last and self.left > 0)

    def indices(self, index: int) -> Array:
        """The numbers of the samples of the pass of that index, counted over all epochs."""
        epoch, place = divmod(index, self.passes)
        order = self.of_epoch(epoch)
        return order.take(np.arange(place * self.batch, (place + 1) * self.batch), mode="wrap")

    def of_epoch(self, epoch: int) -> Array:
        """The order of all samples in an epoch, counted from 0."""
        if not self.shuffled:
            return np.arange(self.count)
        return _drawn(self.count, self.seed, epoch)

    @property
    def note(self) -> str:
        """Describe the handling of an incomplete last batch; empty if there is none."""
        if not self.left:
            return ""
        text = f"{self.count} samples are not a multiple of the batch size {self.batch}: "
        if self.drop_last:
            return f"{text}the last {self.left} of each epoch's order are dropped"
        return f"{text}the last batch of an epoch, of {self.left}, is filled up with the first samples of its order"


@dataclass(frozen=True, eq=False)
class BalancedOrder(Order):
    """An order that draws the samples of an epoch with replacement, by the `shares` of each."""

    shares: Array = field(default_factory=lambda: np.zeros(0))
    drawn: dict[int, Array] = field(default_factory=dict)

    def of_epoch(self, epoch: int) -> Array:
        """The samples of an epoch, counted from 0."""
        if epoch not in self.drawn:
            self.drawn.clear()
            draw = np.random.default_rng([self.seed, epoch, 1])
            self.drawn[epoch] = draw.choice(self.count, self.count, p=self.shares)
        return self.drawn[epoch]


@dataclass(frozen=True, eq=False)
class NumberedOrder(Order):
    """The `drawn` order in which the samples of each update come by their numbers, whatever passes it is split into.

    So sums over the samples of an update do not depend on the order in which these were drawn.
    """

    drawn: Order = field(kw_only=True)
    updates: Updates = field(kw_only=True)

    def indices(self, index: int) -> Array:
        """The numbers of the samples of the pass of that index, counted over all epochs."""
        window = self.updates.window(index)
        numbers = np.sort(np.concatenate([self.drawn.indices(each) for each in window]))
        return numbers[(index - window.start) * self.batch :][: self.batch]

    def of_epoch(self, epoch: int) -> Array:
        """The samples of an epoch, in the order that was drawn."""
        return self.drawn.of_epoch(epoch)


def numbered(order: Order, updates: Updates) -> Order:
    """The order with the samples of each update by their numbers."""
    same = (order.count, order.batch, order.seed, order.shuffled, order.drop_last)
    return NumberedOrder(*same, drawn=order, updates=updates)


def balanced(order: Order, labels: Array, shuffled: bool = True) -> Order:
    """The order that draws each class of the labels as often as any other.

    OptionProblem for a target of other than one class number for each sample, and without shuffling.
    """
    if labels.dtype.kind not in "iu" or labels.size != len(labels):
        facts = [("target", f"{labels.dtype}{list(labels.shape)}")]
        raise OptionProblem("class_balanced needs a class number for each sample", facts, "leave it out")
    if not shuffled:
        raise OptionProblem("class_balanced draws the samples, and no order of theirs is kept", hint="leave one out")
    _, places, counts = np.unique(labels.reshape(-1), return_inverse=True, return_counts=True)
    shares = 1.0 / counts[places] / len(counts)
    return BalancedOrder(order.count, order.batch, order.seed, True, order.drop_last, shares / shares.sum())


@lru_cache(maxsize=2)
def _drawn(count: int, seed: int, epoch: int) -> Array:
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True, eq=False)
class Samples:
    """Arrays by data input, samples along the first axis, each in the numbers and the shape that a batch has.

    `classes` are the names of the labels from 0 on, where the source has some, `taken` says what they were in the
    source, where that is known, and `numbers` which of its samples these are, by default all.
    """

    types: Mapping[str, TensorType]
    arrays: Mapping[str, Array]
    batch: int
    classes: tuple[str, ...] = ()
    taken: Taken | None = None
    numbers: Array | None = None

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(next(iter(self.arrays.values())))

    def of(self, indices: Array) -> tuple[Array, ...]:
        """The data inputs of a pass over these samples."""
        return tuple(self.arrays[name][indices].reshape(kind.shape) for name, kind in self.types.items())

    def subset(self, indices: Array) -> "Samples":
        """These samples alone."""
        numbers = indices if self.numbers is None else self.numbers[indices]
        return replace(self, arrays={name: array[indices] for name, array in self.arrays.items()}, numbers=numbers)

    def place(self, name: str, index: Sequence[int]) -> str:
        """The place in the source of a number of these samples."""
        row = index[0] if self.numbers is None else int(self.numbers[index[0]])
        if self.taken is None:
            return f"{name}{[row, *index[1:]]}"
        return self.taken.place(name, (row, *index[1:]), self.arrays[name].shape[1:], name == list(self.types)[-1])

    def in_order(self) -> Iterator[tuple[Array, ...]]:
        """The data inputs of passes over all samples as they come; the first ones fill up the last batch."""
        order = Order(self.count, self.batch, shuffled=False)
        return (self.of(order.indices(index)) for index in range(order.passes))


def split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """The samples without a share of them, drawn by the seed, and that share; DatasetMismatch where one has none."""
    order = np.random.default_rng([seed, samples.count]).permutation(samples.count)
    count = round(samples.count * share)
    if not 0 < count < samples.count:
        facts = [("samples", str(samples.count)), ("share", f"{share:g}")]
        raise DatasetMismatch("the split leaves no samples on one side", facts, "another share, or a validation set")
    return samples.subset(np.sort(order[count:])), samples.subset(np.sort(order[:count]))
