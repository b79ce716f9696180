"""Draw a token from logits: the same ids in Python and in C, on every machine.

Weights are e^((logit - largest) / temperature) in whole units of 2^-40, by an exponential of fixed bits, so their sums
have no order and no rounding. The tokens that may be drawn are found by sorting here, and digit by digit in
`sampling_f32.h`. A draw follows from seed, sequence and position (`philox`), so each can be made alone and again.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

import deployer
from deployer.codegen.generate import rendered
from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.core.safe_text import c_comment, identifier
from deployer.operators.base.philox import BITS, WORD, halves, philox
from deployer.text.float_arithmetic import Floats, exp_f32

UNIT = np.float32(1 << 40)
"""Units of a weight in 1."""
MOST = 1 << 22
"""Logits of a row, so that sums of their weights have 62 bits."""
SHARE_BITS = 63
"""Binary digits of a share."""
STREAM = 1
"""The counter's last word, by which draws of tokens are others than those of a training."""
NEEDED = ("sampling_f32.h",)
"""Headers that the C of a sampler includes, for `kernel_sources` of a library."""


@dataclass(frozen=True)
class Sampler:
    """Options of a draw; OptionProblem where one is out of range.

    A `temperature` of 0 takes the largest logit. `top_k` keeps the k most likely tokens (0: all), `top_p` of these the
    fewest that have this share of their probability (1: all); of equal logits the lower id comes first. Temperature and
    share count as the nearest float32.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0 <= self.temperature <= float(np.finfo(np.float32).max), "0 or more, and finite"),
            "top_k": (0 <= self.top_k <= WORD, "0 or more"),
            "top_p": (np.float32(0) < np.float32(self.top_p) <= 1, "more than 0, and at most 1"),
            "seed": (0 <= self.seed < 1 << 2 * BITS, "0 to 2^64 - 1"),
        }
        for name, (holds, range_) in limits.items():
            if not holds:
                facts = [(name, str(getattr(self, name))), ("range", range_)]
                raise OptionProblem(f"{name} of a sampler is out of range", facts, f"{name} in its range")

    def sample(self, logits: npt.ArrayLike, sequence: int = 0, position: int = 0) -> int:
        """The id drawn from float32 logits of one token for a position of a sequence.

        DatasetMismatch for a logit that is NaN, and where none is above minus infinity.
        """
        row = np.asarray(logits, np.float32)
        _check_row(row)
        greedy = int(np.argmax(row))
        if np.float32(self.temperature) == 0:
            return greedy
        weights, order = self.weights(row, row[greedy]), np.argsort(-row, kind="stable")
        kept = order[: self.top_k] if self.top_k else order
        if np.float32(self.top_p) < 1:
            sums = np.cumsum(weights[kept])
            kept = kept[: 1 + int(np.searchsorted(sums, self.share_of(int(sums[-1]))))]
        kept = np.sort(kept)
        drawn = self._word(sequence, position) * int(weights[kept].sum()) >> 2 * BITS
        return int(kept[self.pick(weights[kept], drawn)])

    @staticmethod
    def pick(weights: npt.NDArray[np.int64], drawn: int) -> int:
        """The place of the first weight whose sum with those before is above a number below the sum of all."""
        return int(np.searchsorted(np.cumsum(weights), drawn, side="right"))

    def weights(self, row: Floats, largest: np.float32) -> npt.NDArray[np.int64]:
        """The weight of each logit in units; that of the largest is 1, also where it is infinite."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            inverse = np.float32(1) / np.float32(self.temperature)
            powers = exp_f32((row - largest) * inverse)
        return (np.where(row == largest, np.float32(1), powers) * UNIT).astype(np.int64)

    def share_of(self, total: int) -> int:
        """The least whole number that is not below top_p of a total, and not below 1."""
        units = int(Fraction(float(np.float32(self.top_p))) * (1 << SHARE_BITS))
        return max(1, -(-units * total >> SHARE_BITS))

    def _word(self, sequence: int, position: int) -> int:
        """The 64 random bits of a position."""
        counter = np.array([position & WORD, 0, sequence & WORD, STREAM])
        low, high = philox(counter, halves(self.seed))[:2].tolist()
        return int(high << BITS | low)


def _check_row(row: Floats) -> None:
    if row.ndim != 1 or not 0 < row.size <= MOST:
        facts = [("shape", str(list(row.shape))), ("at most", f"{MOST} logits")]
        raise DatasetMismatch("logits of one token are a row", facts, "the last row of the model's output")
    if np.isnan(row).any():
        first = int(np.argmax(np.isnan(row)))
        facts = [("first id", str(first)), ("NaN", f"{int(np.isnan(row).sum())} of {row.size}")]
        raise DatasetMismatch(f"the logit of id {first} is NaN", facts, "weights before the training became unstable")
    if np.isneginf(row).all():
        facts = [("logits", str(row.size))]
        raise DatasetMismatch("all logits are minus infinity", facts, "a mask that leaves a token")


class CSampler:
    """The files of a sampler in C, whose names and functions begin with `name`; they include `NEEDED`.

    `NAME_sample` draws the ids that `Sampler.sample` draws.
    """

    def __init__(self, name: str) -> None:
        self.name, self.upper = identifier(name), identifier(name.upper())
        self.provenance = c_comment(f"Generated by deployer {deployer.__version__}. Do not edit.")

    @property
    def files(self) -> dict[str, str]:
        """The header and the source by their names."""
        return {f"{self.name}_sampler.{end}": rendered(f"firmware/sampler.{end}", self) for end in ("h", "c")}
