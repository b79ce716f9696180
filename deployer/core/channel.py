"""What the DMA engines between memories cost; for one transfer, or for arrays of them."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Count = TypeVar("Count", int, npt.NDArray[np.int64])


def slowed(cycles: Count, contention: int) -> Count:
    """Cycles of transfers under kernels, which slow a byte by that many thousandths."""
    return cycles * (1000 + contention) // 1000


@dataclass(frozen=True)
class Channel:
    """Cost of one transfer direction: setup cycles, then thousandths of a cycle per byte and per contiguous run."""

    setup: int
    byte_milli: int
    line_milli: int

    def cycles(self, size: Count, lines: Count, contention: int = 0) -> Count:
        """Cycles the engine is busy with `size` bytes in `lines` runs, a byte slower by `contention` thousandths."""
        bytes_milli = slowed(size * self.byte_milli, contention)
        return self.setup + (bytes_milli + lines * self.line_milli + 999) // 1000


@dataclass(frozen=True)
class Hop:
    """The DMA engine between a level and the next outer one; `shared` means one engine for both directions."""

    issue: int
    wait: int
    shared: bool
    inward: Channel
    outward: Channel
