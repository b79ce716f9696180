"""Choices of a quantization; nothing heavy is loaded for them."""

from dataclasses import dataclass

from deployer.core.errors import OptionProblem

METHODS = ("min-max", "percentile")
"""Methods for the range of a value: its least and largest number, or the middle share of its numbers."""
PERCENT = 99.99
"""The usual share, in percent."""


@dataclass(frozen=True)
class Quantization:
    """The frozen part by an expression, by default all; the method of ranges; scales of weights by channel, or one."""

    freeze: str | None = None
    method: str = METHODS[0]
    percentile: float = PERCENT
    per_channel: bool = True

    def __post_init__(self) -> None:
        """Raise OptionProblem for an unknown method, and a percentile that leaves nothing."""
        if self.method not in METHODS:
            raise OptionProblem(f"there is no method {self.method!r}", hint=f"one of {', '.join(METHODS)}")
        if not 0 < self.percentile <= 100:
            cause = f"percentile {self.percentile:g} is no share of the values"
            raise OptionProblem(cause, hint=f"above 0, at most 100, such as {PERCENT}")
