"""Learning rates of a run: a schedule with its settings, a warm-up before it, and the guard of rates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import content_of, own_toml
from deployer.core.operator import Array
from deployer.core.traits import Hyperparameter
from deployer.lr_schedules.schedules import SCHEDULES, LrScheduler

LARGEST_RATE = float(own_toml(Path(__file__).parent / "limits.toml")["largest"])
LIST_BYTES = 1 << 24
"""Size limit of a file of rates."""
FORM = "NAME[:SETTING=X,...], one of " + ", ".join(SCHEDULES)
WARM_UP_FIRST = 1 / 3
"""Default initial factor of a warm-up, as in PyTorch's LinearLR."""
FREE = "--any-rate to allow it"


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
            raise OptionProblem("a list of rates cannot replace a learning rate of 0", hint="--learning-rate above 0")
        return [x * self.listed[0] / base for x in rise] + [rate / base for rate in self.listed]


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
    """Parse `--schedule TEXT` and `--warm-up UPDATES[:FIRST]`; OptionProblem for invalid text."""
    name, colon, rest = text.partition(":")
    place = f"--schedule {text!r}"
    if name not in SCHEDULES:
        raise OptionProblem(f"{place}: there is no schedule {name!r}", hint=FORM)
    schedule = SCHEDULES[name]
    count, first = _read_warm_up(warm_up)
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


def _read_warm_up(text: str) -> tuple[int, float]:
    """The number of updates and the initial factor; no updates for an empty text."""
    if not text:
        return 0, WARM_UP_FIRST
    count, colon, first = text.partition(":")
    place, number = (
        f"--warm-up {text!r}",
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
