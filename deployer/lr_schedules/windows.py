"""Accumulation windows: the passes of each update of a run, and the weight of each pass in it."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

ACCUMULATIONS = ("sum", "mean")
"""Reductions of the gradients of an update's passes."""
PARTIAL_ACCUMULATION = ("skip", "apply")
"""Treatments of an incomplete accumulation window at the end of a run."""


@dataclass(frozen=True)
class Updates:
    """Updates of a run of `passes`: one after every `each` of them, and with `flush` one for an incomplete last window.

    Without `flush` a longer run continues where this one ends, so its next update is like the others.
    """

    passes: int
    each: int
    flush: bool = False

    @property
    def left(self) -> int:
        """Passes in an incomplete last window."""
        return self.passes % self.each

    @property
    def count(self) -> int:
        """Updates of the run."""
        return self.passes // self.each + int(self.flush and self.left > 0)

    def flushes(self, index: int) -> bool:
        """Whether the pass of that index is followed by the update of what is left."""
        return self.flush and self.left > 0 and index + 1 == self.passes

    def follows(self, index: int) -> bool:
        """Whether an update follows the pass of that index."""
        return (index + 1) % self.each == 0 or self.flushes(index)

    def window(self, index: int) -> range:
        """The passes of the update that the pass of that index is in."""
        first = index // self.each * self.each
        last = first + self.each
        return range(first, min(last, self.passes) if self.flush else last)

    def note(self, made: int) -> str:
        """Describe the outcome of an incomplete last window after `made` passes; empty if there is none."""
        left = made % self.each
        if not left:
            return ""
        if self.flushes(made - 1):
            return f"incomplete accumulation window at the end, applied: {left} of {self.each} passes"
        return f"incomplete accumulation window at the end, not applied: {left} of {self.each} passes"

    @property
    def origin(self) -> str:
        """Key of the windows that determine a run's bits, with the number of passes if the last update needs it."""
        choice = PARTIAL_ACCUMULATION[self.flush]
        return f"{choice} after {self.passes} passes" if self.flush else choice


def mean_shares(counts: Iterable[float | None], passes: int, accum: int) -> tuple[float, ...]:
    """Return the share of each pass in its update's mean, in float64: its count over that of all of the passes.

    `counts` are what the mean of each sample's loss is divided by, or None where that is the same for all samples,
    which repeat in order. Passes that are left at the end are a window of their own.
    """
    own = [1.0 if count is None else count for count in itertools.islice(itertools.cycle(counts), passes)]
    totals = [sum(own[start : start + accum]) for start in range(0, passes, accum)]
    return tuple(count / totals[index // accum] for index, count in enumerate(own))
