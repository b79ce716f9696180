"""Learning-rate schedules: the factor of the learning rate in each update, one declaration each.

They are PyTorch's schedulers, in closed form and in float64. Absolute rates of PyTorch are factors here, so that
parameter groups with learning rates of their own follow the same schedule. Updates count from 0; U is their number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deployer.core.traits import Hyperparameter

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class LrScheduler:
    """A schedule by its `name` on the command line, with its help and its settings.

    `share` maps the settings by place, the update and U to the factor of the learning rate. A setting without a default
    is required; an integer one that is 0 stands for U. Without `share` the rates are read from a file.
    """

    name: str
    text: str
    share: Callable[[Numbers, int, int], float] | None
    settings: tuple[Hyperparameter, ...] = field(default_factory=tuple)


CONSTANT = "constant"
"""Name of the schedule with a constant rate."""
UPDATES = Hyperparameter("updates", "length of the schedule in updates; 0: the whole run", 0, whole=True)


def _between(first: float, last: float, part: float) -> float:
    """Cosine annealing from `first` at `part` 0 to `last` at `part` 1."""
    return last + (first - last) * (1 + math.cos(math.pi * part)) / 2


def _cosine(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.CosineAnnealingLR, which stays at its end here."""
    return _between(1.0, n["end_factor"], min(update / (n["updates"] or updates), 1.0))


def _linear(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.LinearLR."""
    return n["start_factor"] + (n["end_factor"] - n["start_factor"]) * min(update / (n["updates"] or updates), 1.0)


def _one_cycle(n: Numbers, update: int, updates: int) -> float:
    """torch.optim.lr_scheduler.OneCycleLR, Smith and Topin 2019: the given rate is the largest."""
    total, first = n["updates"] or updates, 1 / n["div_factor"]
    peak, end = n["pct_start"] * total - 1, total - 1
    if update <= peak:
        return _between(first, 1.0, update / peak) if peak else 1.0
    return _between(1.0, first / n["final_div_factor"], min((update - peak) / (end - peak), 1.0))


TABLE = (
    LrScheduler(CONSTANT, "the rate does not change", lambda n, update, updates: 1.0),
    LrScheduler(
        "step",
        "multiply the rate by `gamma` every `step-size` updates",
        lambda n, update, updates: n["gamma"] ** (update // int(n["step_size"])),
        (
            Hyperparameter("step-size", "updates between decays", None, least=1, whole=True),
            Hyperparameter("gamma", "decay factor", 0.1, most=1.0, ends="(]"),
        ),
    ),
    LrScheduler(
        "cosine",
        "cosine annealing to `end-factor` times the rate",
        _cosine,
        (Hyperparameter("end-factor", "final factor of the rate", 0.0, most=1.0, ends="[]"), UPDATES),
    ),
    LrScheduler(
        "linear",
        "linear from `start-factor` to `end-factor` times the rate",
        _linear,
        (
            Hyperparameter("start-factor", "initial factor of the rate", 1.0),
            Hyperparameter("end-factor", "final factor of the rate", 0.0),
            UPDATES,
        ),
    ),
    LrScheduler(
        "one-cycle",
        "cosine from rate/`div-factor` up to the rate, then down to that initial rate/`final-div-factor`",
        _one_cycle,
        (
            Hyperparameter("pct-start", "fraction of the updates in which the rate rises", 0.3, most=1.0, ends="()"),
            Hyperparameter("div-factor", "rate / initial rate", 25.0, least=1.0),
            Hyperparameter("final-div-factor", "initial rate / final rate", 1e4, least=1.0),
            UPDATES,
        ),
    ),
    LrScheduler("list", "list:FILE, a text file with one learning rate per update, separated by white space", None),
)
"""All schedules. The command line, its help and the tests read them from here."""
SCHEDULES = {schedule.name: schedule for schedule in TABLE}
