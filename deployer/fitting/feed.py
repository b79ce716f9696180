"""Input data of the passes of a run over epochs: ordered samples, and each pass's share in its update."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.data_numbers import loss_counts
from deployer.lr_schedules.windows import Updates, mean_shares
from deployer.training.order import Order, Samples


@dataclass(frozen=True, eq=False)
class Feed:
    """Program inputs of each pass of a run: samples in an order, and in a mean the `share` of the pass.

    A share is one float behind the data inputs of a sample: what the labels of the pass that count are of those of
    its update, whose gradient then is that of one batch of all its samples.
    """

    samples: Samples
    order: Order
    updates: Updates
    program: Program
    share: TensorType | None = None

    def bare(self, index: int) -> tuple[Array, ...]:
        """The data inputs of the pass of that index, whose share counts as 1."""
        return (*self.samples.of(self.order.indices(index)), *self.whole)

    @property
    def whole(self) -> tuple[Array, ...]:
        """The share of a pass that is an update alone, if it has one."""
        return () if self.share is None else (np.ones(self.share.shape, np.float32),)

    def passes(self, first: int, last: int) -> Sequence[tuple[Array, ...]]:
        """The data inputs of the passes from `first` to the one before `last`."""
        rows = [self.bare(index) for index in range(first, last)]
        if self.share is None:
            return rows
        shares = dict(self._shares(first, last))
        whole = self.whole[0]
        return [(*row[:-1], whole * np.float32(shares[index])) for index, row in enumerate(rows, first)]

    def _shares(self, first: int, last: int) -> Iterator[tuple[int, float]]:
        """The share of each pass of the updates that these passes are in, in float64."""
        at = self.updates.window(first).start
        while at < last:
            window = self.updates.window(at)
            counts = loss_counts(self.program, map(self.bare, window))
            yield from zip(window, mean_shares(counts, len(window), len(window)), strict=True)
            at = window.stop
