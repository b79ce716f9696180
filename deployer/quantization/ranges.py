"""Ranges of values over all samples, and the scale and zero that 8 bits have for them."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from deployer.core.errors import DatasetMismatch
from deployer.core.operator import Array
from deployer.frontend.quantized.values import OFFSET

BINS = 1 << 13
"""Bins of a histogram on each side of zero."""
STEPS = 2 * OFFSET - 1
"""Steps between the least and the largest number of 8 bits."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest scale that float32 has in full precision."""


@dataclass(frozen=True)
class Scaling:
    """Scale and zero of signed numbers of 8 bits."""

    scale: np.float32
    zero: int


class Observer(Protocol):
    """Sees all values of a tensor, batch by batch."""

    def see(self, values: Array) -> None:
        """Take more values into account; they are finite."""

    def bounds(self) -> tuple[float, float]:
        """The least and the largest number to represent."""


@dataclass
class MinMaxObserver:
    """The least and the largest of all values."""

    low: float = np.inf
    high: float = -np.inf

    def see(self, values: Array) -> None:
        """Take more values into account."""
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))

    def bounds(self) -> tuple[float, float]:
        """Both of them."""
        return self.low, self.high


@dataclass
class HistogramObserver:
    """Values in bins of one width on both sides of zero, which doubles where a value is beyond the last bin.

    Of all values the middle `percent` are represented; the others are clipped. Each half of a width is exact in floats,
    so bins merge without an error.
    """

    percent: float
    width: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(2 * BINS, np.int64))
    extremes: MinMaxObserver = field(default_factory=MinMaxObserver)

    def see(self, values: Array) -> None:
        """Count more values."""
        self.extremes.see(values)
        most = float(np.abs(values).max())
        if most == 0 and not self.width:
            self.counts[BINS] += values.size
            return
        if not self.width:
            self.width = 2.0 ** np.ceil(np.log2(most / BINS))
        while most >= self.width * BINS:
            self._widen()
        places = np.floor(values.astype(np.float64).reshape(-1) / self.width).astype(np.int64) + BINS
        self.counts += np.bincount(places, minlength=2 * BINS)

    def _widen(self) -> None:
        self.width *= 2
        merged = self.counts.reshape(-1, 2).sum(1)
        self.counts = np.concatenate([np.zeros(BINS // 2, np.int64), merged, np.zeros(BINS // 2, np.int64)])

    def bounds(self) -> tuple[float, float]:
        """The bounds of the middle share, at most the extremes."""
        if not self.width:
            return self.extremes.bounds()
        shares, cut = self.counts.cumsum() / self.counts.sum(), (1 - self.percent / 100) / 2
        first = int(np.searchsorted(shares, cut, "right"))
        last = int(np.searchsorted(shares, 1 - cut, "left"))
        low, high = (first - BINS) * self.width, (min(last, 2 * BINS - 1) + 1 - BINS) * self.width
        return max(low, self.extremes.low), min(high, self.extremes.high)


def check_values(name: str, values: Array) -> None:
    """Raise DatasetMismatch for values that have no range."""
    bad = ~np.isfinite(values)
    if bad.any():
        facts = [("not finite", f"{int(bad.sum())} of {values.size} in a batch"), ("first", str(values[bad][0]))]
        hint = "other samples, or weights with which the model's values stay finite"
        raise DatasetMismatch(f"value {name!r} has no range: it is not finite for these samples", facts, hint)


def scaling_of(name: str, bounds: tuple[float, float]) -> Scaling:
    """Scale and zero of a range, which is widened to hold zero; DatasetMismatch where all values are zero."""
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    if high - low < SMALLEST * STEPS:
        facts = [("range", f"{low:g} to {high:g}")]
        hint = "samples for which it differs from 0, or a frozen part that ends before it"
        raise DatasetMismatch(f"value {name!r} is 0 for all samples, so it has no scale", facts, hint)
    scale = np.float32((high - low) / STEPS)
    return Scaling(scale, int(np.clip(np.rint(-OFFSET - low / float(scale)), -OFFSET, OFFSET - 1)))
