"""The options that a sweep varies, and the values that its runs give them."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np

from deployer.core.errors import OptionProblem
from deployer.operators.base.philox import drawn

LOG = "log:"
"""Prefix of a range whose logarithms are drawn evenly."""
WORDS = 2
"""Random words of 32 bits for each drawn value."""
UNIT = 2.0**-32
DIGITS = 4
"""Decimal digits of a number that is drawn from a range."""
Values = dict[str, str]
"""The value of each option, as the command line has it."""


@dataclass(frozen=True)
class SweptOption:
    """An option and its values: a list of them, or the numbers of a range."""

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False

    def value(self, share: float) -> str:
        """The value at a share of the way, from 0 to below 1."""
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        if self.logarithmic:
            return _number(math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low))))
        return _number(self.low + share * (self.high - self.low))


def swept_option(text: str) -> SweptOption:
    """An option from `NAME=A,B,C`, `NAME=LOW:HIGH:STEP`, `NAME=LOW:HIGH` or `NAME=log:LOW:HIGH`.

    Raises OptionProblem for other texts.
    """
    name, sign, values = text.partition("=")
    name = name.removeprefix("--")
    if not sign or not name or not values:
        raise OptionProblem(f"--vary {text} names no option with values", hint="NAME=A,B,C such as --vary lr=0.1,0.01")
    logarithmic = values.startswith(LOG)
    bounds = values.removeprefix(LOG).split(":")
    if "," in values or not 2 <= len(bounds) <= 3 or (logarithmic and len(bounds) == 3):
        choices = tuple(values.split(","))
        double = next((x for i, x in enumerate(choices) if x in choices[:i] or not x), None)
        if double is not None or logarithmic:
            cause = f"--vary {text} has {'an empty value' if not double else f'the value {double!r} twice'}"
            cause = f"--vary {text} is no range" if logarithmic else cause
            hint = f"NAME={LOG}LOW:HIGH" if logarithmic else "each value once, such as NAME=A,B,C"
            raise OptionProblem(cause, hint=hint)
        return SweptOption(name, choices)
    numbers = [_exact(text, x) for x in bounds]
    if numbers[0] >= numbers[1] or (logarithmic and numbers[0] <= 0) or (len(numbers) == 3 and numbers[2] <= 0):
        hint = "a range from the smaller number to the larger one, above 0 where it is logarithmic"
        raise OptionProblem(f"--vary {text} is an empty range", hint=hint)
    if len(numbers) == 3:
        low, high, step = numbers
        return SweptOption(name, tuple(str(low + i * step) for i in range(int((high - low) / step) + 1)))
    return SweptOption(name, (), float(numbers[0]), float(numbers[1]), logarithmic)


def grid(options: Sequence[SweptOption]) -> Iterator[Values]:
    """Every combination of values, the last option's fastest. Raises OptionProblem where an option has a range."""
    for option in options:
        if not option.choices:
            cause = f"a grid has no end, as --vary {option.name} is a range without a step"
            hint = f"{option.name}=LOW:HIGH:STEP or a list of values, or --sampler random --runs N"
            raise OptionProblem(cause, hint=hint)
    for values in itertools.product(*(option.choices for option in options)):
        yield {option.name: value for option, value in zip(options, values, strict=True)}


def drawn_values(options: Sequence[SweptOption], seed: int, number: int) -> Values:
    """The values of a run by its number, from 0: each is drawn by itself, whatever other runs there are."""
    words = drawn(seed, 0, number + 1, WORDS * len(options)).reshape(-1, WORDS)[:, 0]
    shares = np.asarray(words, np.float64) * UNIT
    return {option.name: option.value(float(share)) for option, share in zip(options, shares, strict=True)}


def _exact(text: str, number: str) -> Decimal:
    try:
        value = Decimal(number)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise OptionProblem(f"--vary {text}: {number!r} is not a number", hint="numbers around the colon, or A,B,C")
    return value


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"
