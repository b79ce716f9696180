"""Windows: the passes of an update, and what each of them counts in it."""

import itertools
from collections.abc import Iterable

ACCUMULATIONS = ("sum", "mean")
"""What an update takes of the gradients of its passes."""
LEFTOVERS = ("skip", "flush")
"""What becomes of passes behind the last full update: no update, or one of their own."""


def mean_shares(counts: Iterable[float | None], passes: int, accum: int) -> tuple[float, ...]:
    """What each pass counts in the mean over its update, computed in float64: its count over that of all its passes.

    `counts` are what the mean of each sample's loss is divided by, or None where that is the same for all samples,
    which repeat in order. Passes that are left at the end are a window of their own.
    """
    own = [1.0 if count is None else count for count in itertools.islice(itertools.cycle(counts), passes)]
    totals = [sum(own[start : start + accum]) for start in range(0, passes, accum)]
    return tuple(count / totals[index // accum] for index, count in enumerate(own))
