"""Learning-rate schedules: the kinds, and one with its numbers over the updates of a run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import content_of, own_toml
from deployer.core.operator import Array
from deployer.core.traits.training import Hyperparameter

# Learning-rate schedules: the factor of the learning rate in each update, one declaration each.
#
# They are PyTorch's schedulers, in closed form and in float64. Absolute rates of PyTorch are factors here, so that
# parameter groups with learning rates of their own follow the same schedule. Updates count from 0; U is their number.

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


def _between(first: float, last: float, fraction: float) -> float:
    """Cosine annealing from `first` at `fraction` 0 to `last` at `fraction` 1."""
    return last + (first - last) * (1 + math.cos(math.pi * fraction)) / 2


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


# Learning rates of a run: a schedule with its settings, a warm-up before it, and the guard of rates.

LARGEST_RATE = float(own_toml(Path(__file__).parent / "limits.toml")["largest"])
LIST_BYTES = 1 << 24
"""Size limit of a file of rates."""
FORM = "NAME[:SETTING=X,...], one of " + ", ".join(SCHEDULES)
WARM_UP_FIRST = 1 / 3
"""Default initial factor of a warm-up, as in PyTorch's LinearLR."""
FREE = "--any-rate (any_rate=True in Python) to allow it"


@dataclass(frozen=True)
class LrSchedule:
    """Learning-rate schedule of a run: the rate of each update, relative to the learning rate.

    In the first `warm_up` updates the factor rises linearly from `first`; the schedule begins after them, as with
    PyTorch's SequentialLR. `listed` are the rates from a file. `free` allows rates beyond the guard.
    """

    schedule: LrScheduler
    numbers: Mapping[str, float] = field(default_factory=dict)
    listed: tuple[float, ...] = ()
    warm_up: int = 0
    first: float = WARM_UP_FIRST
    free: bool = False

    @property
    def watches(self) -> str:
        """The better values of the monitored metric ("min", "max") for a schedule that follows it; else empty."""
        return ""

    def over(self, epoch_of: Callable[[int], int], epochs: int) -> "LrSchedule":
        """The schedule in a run of so many epochs, in which each update, from 0 on, is in the epoch that is given."""
        return self

    def after_epochs(self, bases: Sequence[float], values: Sequence[float]) -> Sequence[float]:
        """The rate of each base after epochs with these values of the metric, of a schedule that `watches` it."""
        raise NotImplementedError(f"the schedule {self.schedule.name} follows no metric")

    def rates(self, bases: Sequence[float], updates: int, base: float) -> Array:
        """The rate of each update for each base rate, computed in float64, as float32 [updates, bases].

        A file has the rates of `base`, and those of other bases are in proportion. OptionProblem where the file has
        not as many rates as there are updates, the warm-up is longer than the run, or the guard refuses a rate.
        """
        shares = np.array(self._shares(updates, base), np.float64)
        exact = shares[:, None] * np.array(bases, np.float64)[None, :]
        with np.errstate(over="ignore", under="ignore"):
            rates = exact.astype(np.float32)
        for update, row in enumerate(rates):
            for rate in row:
                check_rate(float(rate), f"the rate of update {update}", self.free, zero=True)
        return rates

    def _shares(self, updates: int, base: float) -> list[float]:
        if self.warm_up >= updates and self.warm_up:
            facts = [("warm-up", f"{self.warm_up} updates"), ("run", f"{updates} updates")]
            raise OptionProblem(
                "the warm-up does not end before the run", facts, "a shorter warm-up, or more passes (--n-steps)"
            )
        rest = updates - self.warm_up
        rise = [self.first + (1 - self.first) * u / self.warm_up for u in range(self.warm_up)]
        share = self.schedule.share
        if share is not None:
            return rise + [share(self.numbers, update, rest) for update in range(rest)]
        if len(self.listed) != rest:
            facts = [("rates", str(len(self.listed))), ("updates", str(rest)), ("warm-up", str(self.warm_up))]
            raise OptionProblem(
                "the list needs one rate per update", facts, "as many rates as updates after the warm-up"
            )
        if not base:
            raise OptionProblem("a list of rates cannot replace a learning rate of 0", hint="--lr above 0")
        return [x * self.listed[0] / base for x in rise] + [rate / base for rate in self.listed]


def schedule_of(name: str, share: Callable[[int], float]) -> LrSchedule:
    """A schedule by a function from the update, from 0 on, to the factor of the learning rate."""
    return LrSchedule(
        LrScheduler(name, "a function of the update", lambda numbers, update, updates: float(share(update)))
    )


def shown_rates(rates: Array, lr_schedule: LrSchedule | None) -> str:
    """Describe rates that are set at run time, in one line."""
    groups = "; ".join(f"{column[0]:g} to {column[-1]:g}, at most {column.max():g}" for column in rates.T[:4])
    more = f"; and {rates.shape[1] - 4} more groups" if rates.shape[1] > 4 else ""
    source = "the case's" if lr_schedule is None else lr_schedule.schedule.name
    return f"learning rates: {source}, set at run time for each of {len(rates)} updates: {groups}{more}"


def check_rate(rate: float, place: str = "learning rate", free: bool = False, zero: bool = False) -> None:
    """Raise OptionProblem for an implausible rate: not finite, not positive, or above LARGEST_RATE.

    `free` allows any finite rate, `zero` allows 0, as at the end of a schedule. Rates are compared in float32.
    """
    with np.errstate(over="ignore"):
        narrow = float(np.float32(rate))
    facts = [("in float32", f"{narrow:g}")]
    if not math.isfinite(narrow):
        raise OptionProblem(f"{place} {rate} is not finite", facts, "for example 0.01")
    if not free and not (narrow > 0 or (zero and rate == 0)):
        raise OptionProblem(f"{place} {rate} is not positive", facts, f"for example 0.01, or {FREE}")
    if not free and narrow > LARGEST_RATE:
        facts.append(("at most", f"{LARGEST_RATE:g}"))
        raise OptionProblem(f"{place} {rate} is too large", facts, f"for example 0.01, or {FREE}")


def read_schedule(text: str, warm_up: str = "", free: bool = False) -> LrSchedule:
    """Parse `--lr-scheduler TEXT` and `--warmup-steps UPDATES[:FIRST]`; OptionProblem for invalid text."""
    name, colon, rest = text.partition(":")
    place = f"--lr-scheduler {text!r}"
    if name not in SCHEDULES:
        raise OptionProblem(f"{place}: there is no schedule {name!r}", hint=FORM)
    schedule = SCHEDULES[name]
    count, first = read_warmup(warm_up)
    if schedule.share is None:
        if not rest:
            raise OptionProblem(f"{place} names no file", hint=f"{name}:FILE")
        return LrSchedule(schedule, {}, _read_list(Path(rest)), count, first, free)
    if colon and not rest:
        raise OptionProblem(f"{place} ends with a colon", hint=FORM)
    return LrSchedule(schedule, _read_numbers(schedule, rest.split(",") if rest else [], place), (), count, first, free)


def _read_numbers(schedule: LrScheduler, words: Sequence[str], place: str) -> dict[str, float]:
    """The settings by place, with defaults."""
    known = {setting.name: setting for setting in schedule.settings}
    numbers: dict[str, float] = {}
    for word in words:
        name, sign, number = word.partition("=")
        key = name.strip().replace("_", "-")
        if not sign or key not in known or known[key].place in numbers:
            settings = ", ".join(known) or "none"
            raise OptionProblem(
                f"{place}: {word!r} is not SETTING=X with a known setting, once each", [("settings", settings)], FORM
            )
        numbers[known[key].place] = _number(known[key], number, f"{place}: {key}")
    for setting in schedule.settings:
        if setting.place not in numbers:
            if setting.default is None:
                raise OptionProblem(f"{place} needs {setting.name}", [("meaning", setting.text)], FORM)
            numbers[setting.place] = setting.default
    return numbers


def _number(setting: Hyperparameter, text: str, place: str) -> float:
    facts = [("range", setting.range), ("meaning", setting.text)]
    try:
        value = int(text) if setting.whole else float(text)
    except ValueError:
        raise OptionProblem(
            f"{place} is {text!r}, which is not {'an integer' if setting.whole else 'a number'}", facts
        ) from None
    if not setting.fits(value):
        raise OptionProblem(f"{place}={text} is out of range", facts)
    return value


def read_warmup(text: str) -> tuple[int, float]:
    """Parse `--warmup-steps UPDATES[:FIRST]`: the number of updates and the initial factor; 0 for an empty text."""
    if not text:
        return 0, WARM_UP_FIRST
    count, colon, first = text.partition(":")
    place, number = (
        f"--warmup-steps {text!r}",
        Hyperparameter("updates", "length of the warm-up in updates", None, least=1, whole=True),
    )
    share = Hyperparameter("first", "factor of the rate in the first update", WARM_UP_FIRST, most=1.0, ends="[]")
    updates = int(_number(number, count, f"{place}: updates"))
    return updates, _number(share, first, f"{place}: first") if colon else WARM_UP_FIRST


def _read_list(path: Path) -> tuple[float, ...]:
    """The numbers of a text file; FileProblem where there is none, or something else stands in it."""
    data = content_of(path, LIST_BYTES, "a text file of rates", "one rate for each update")
    rates: list[float] = []
    for word in data.decode("ascii", "replace").split():
        try:
            rates.append(float(word))
        except ValueError:
            facts = [("rate", str(len(rates))), ("found", repr(word[:40]))]
            raise FileProblem(
                f"{path} holds text that is not a number", facts, "rates separated by white space"
            ) from None
    if not rates:
        raise FileProblem(f"{path} holds no rates", hint="one rate for each update")
    return tuple(rates)
