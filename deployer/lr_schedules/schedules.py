"""Schedules: the rate of each update as a share of the one that is given, one declaration each.

They are PyTorch's, in closed form and in float64, with what PyTorch sets absolutely as a share of the rate, so that
parameters with rates of their own follow the same course. Updates count from 0; U is how many the run makes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deployer.core.traits import Hyperparameter

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class LrScheduler:
    """A schedule by its `name` on the command line, with its help and its settings.

    `share` has the settings by place, the update and U, and gives the share of the rate. A setting without a default
    is required; a whole one that is 0 stands for U. Without `share` the rates themselves come from a file.
    """

    name: str
    text: str
    share: Callable[[Numbers, int, int], float] | None
    settings: tuple[Hyperparameter, ...] = field(default_factory=tuple)


CONSTANT = "constant"
"""The schedule that leaves the rate as it is."""
OVER = Hyperparameter("over", "updates until the end of it, 0 for all", 0, whole=True)


def _between(first: float, last: float, part: float) -> float:
    """Along half a wave of the cosine, from `first` where the part is 0 to `last` where it is 1."""
    return last + (first - last) * (1 + math.cos(math.pi * part)) / 2


def _cosine(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.CosineAnnealingLR, which stays at its end here."""
    return _between(1.0, n["least"], min(update / (n["over"] or updates), 1.0))


def _linear(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.LinearLR."""
    return n["first"] + (n["last"] - n["first"]) * min(update / (n["over"] or updates), 1.0)


def _one_cycle(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.OneCycleLR, Smith and Topin 2019: the given rate is the largest."""
    total, first = n["over"] or updates, 1 / n["start"]
    peak, end = n["rise"] * total - 1, total - 1
    if update <= peak:
        return _between(first, 1.0, update / peak) if peak else 1.0
    return _between(1.0, first / n["end"], min((update - peak) / (end - peak), 1.0))


TABLE = (
    LrScheduler(CONSTANT, "the rate as it is", lambda n, update, updates: 1.0),
    LrScheduler(
        "step",
        "`factor` times the rate after each `every` updates",
        lambda n, update, updates: n["factor"] ** (update // int(n["every"])),
        (
            Hyperparameter("every", "updates of a step", None, least=1, whole=True),
            Hyperparameter("factor", "what a step leaves of the rate", 0.1, most=1.0, ends="(]"),
        ),
    ),
    LrScheduler(
        "cosine",
        "half a wave of the cosine down to `least` of the rate",
        _cosine,
        (Hyperparameter("least", "share of the rate at the end", 0.0, most=1.0, ends="[]"), OVER),
    ),
    LrScheduler(
        "linear",
        "a line from `first` of the rate to `last` of it",
        _linear,
        (
            Hyperparameter("first", "share of the rate in the first update", 1.0),
            Hyperparameter("last", "share of the rate at the end", 0.0),
            OVER,
        ),
    ),
    LrScheduler(
        "one-cycle",
        "from 1/`start` of the rate up to it and down to 1/`end` of that, both along half waves of the cosine",
        _one_cycle,
        (
            Hyperparameter("rise", "share of the updates in which it rises", 0.3, most=1.0, ends="()"),
            Hyperparameter("start", "the rate divided by the first one", 25.0, least=1.0),
            Hyperparameter("end", "the first rate divided by the last one", 1e4, least=1.0),
            OVER,
        ),
    ),
    LrScheduler(
        "list", "rates from a text file, list:FILE, one for each update, with spaces or line ends between", None
    ),
)
"""All schedules. A further one is one entry: the command line, its help and the tests take it from here."""
SCHEDULES = {schedule.name: schedule for schedule in TABLE}
