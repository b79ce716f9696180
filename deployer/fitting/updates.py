"""The updates of a run: which passes each has, and what its passes are fed, their share in it included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.data_numbers import loss_counts
from deployer.rates.windows import LEFTOVERS, mean_shares
from deployer.training.order import Order, Samples


@dataclass(frozen=True)
class Updates:
    """The updates of a run of so many `passes`: one after `each` of them, and of what is left one more if it `flush`es.

    Without it a run of more passes goes on where this one ends, so that the last update is like the others.
    """

    passes: int
    each: int
    leftover: str = LEFTOVERS[0]

    @property
    def flush(self) -> bool:
        """Whether passes that are left at the end have an update of their own."""
        return self.leftover == LEFTOVERS[1]

    @property
    def left(self) -> int:
        """Passes behind the last full update."""
        return self.passes % self.each

    @property
    def count(self) -> int:
        """Updates of the run."""
        return self.passes // self.each + int(self.flush and self.left > 0)

    def flushes(self, index: int) -> bool:
        """Whether the pass of that index is followed by the update of what is left."""
        return self.flush and self.left > 0 and index + 1 == self.passes

    def window(self, index: int) -> range:
        """The passes of the update that the pass of that index is in."""
        first = index // self.each * self.each
        last = first + self.each
        return range(first, min(last, self.passes) if self.flush else last)

    def note(self, made: int) -> str:
        """What has become of passes behind the last full update, after so many; empty where there are none."""
        left = made % self.each
        if not left:
            return ""
        if self.flushes(made - 1):
            return f"passes at the end with an update of their own, where others have {self.each}: {left}"
        return f"passes at the end that fill no update of {self.each}: {left}"

    @property
    def origin(self) -> str:
        """What the bits of a run follow from: the number of passes, too, where the last update depends on it."""
        return f"{self.leftover} after {self.passes} passes" if self.flush else self.leftover


@dataclass(frozen=True, eq=False)
class Feed:
    """What a program reads for each pass of a run: samples in an order, and in a mean the `share` of the pass.

    A share is one float behind the data inputs of a sample: what the labels of the pass that count are of those of
    its update, whose gradient then is that of one batch of all its samples.
    """

    samples: Samples
    order: Order
    updates: Updates
    share: TensorType | None = None
    program: Program | None = None

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
        assert self.program is not None
        at = self.updates.window(first).start
        while at < last:
            window = self.updates.window(at)
            counts = loss_counts(self.program, map(self.bare, window))
            yield from zip(window, mean_shares(counts, len(window), len(window)), strict=True)
            at = window.stop
