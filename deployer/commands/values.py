"""Types of option values for argparse: numbers, sizes and paths, and messages for other texts."""

import argparse
import math
import re
import struct
from pathlib import Path

SEEDS = 1 << 32
ALL_PASSES = 1 << 62
"""More passes than any run has."""
DIGITS = 18
"""The most digits of a whole number, enough for the bytes of any memory."""
UNITS = {"": 1, "k": 1000, "Ki": 1024, "M": 1000**2, "Mi": 1024**2}
"""Bytes of each unit of a size; a B may follow."""
EXAMPLES = {"64k": 64 * UNITS["k"], "64Ki": 64 * UNITS["Ki"], "1M": UNITS["M"], "1Mi": UNITS["Mi"]}
FLOAT32_MAX, FLOAT32_LEAST = 3.4028234663852886e38, 2.0**-149


def positive(text: str) -> int:
    """A whole number above 0."""
    if not _is_decimal(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a whole number above 0 of at most {DIGITS} digits")
    return int(text)


def whole(text: str) -> int:
    """A whole number, with or without a sign."""
    if not _is_decimal(text.removeprefix("-")):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a whole number of at most {DIGITS} digits")
    return int(text)


def passes(text: str) -> int:
    """A number of passes, or `all` or `none` of them."""
    named = {"all": ALL_PASSES, "none": 0}
    return named[text] if text in named else positive(text)


def size(text: str) -> int:
    """Bytes: a whole number above 0, with or without a unit."""
    match = re.fullmatch(r"([0-9]+)(k|Ki|M|Mi|)B?", text)
    if match is None or not _is_decimal(match[1]) or int(match[1]) < 1:
        examples = ", ".join(f"{example} is {count}" for example, count in EXAMPLES.items())
        raise argparse.ArgumentTypeError(
            f"{_quoted(text)} is not a whole number above 0 of at most {DIGITS} digits, with or without a unit:"
            f" {examples} bytes; a B may follow"
        )
    return int(match[1]) * UNITS[match[2]]


def budget(text: str) -> tuple[str, int]:
    """A level's name and the bytes it is limited to."""
    name, sign, number = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not LEVEL=BYTES; `deployer targets` lists the levels")
    return name, size(number)


def axis(text: str) -> tuple[str, int]:
    """The name of an axis and its length."""
    name, sign, number = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not NAME=N")
    return name, positive(number)


def seed(text: str) -> int:
    """The seed of a generator of 32 bits."""
    if not _is_decimal(text) or int(text) >= SEEDS:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a whole number from 0 to {SEEDS - 1}")
    return int(text)


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def finite(text: str) -> float:
    """A number that float32 holds: neither infinite there nor 0, unless it is 0."""
    value = _number(text)
    if abs(value) > FLOAT32_MAX:
        raise argparse.ArgumentTypeError(
            f"{_quoted(text)} is beyond float32, whose largest number is {FLOAT32_MAX:.9g}"
        )
    return value


def numbers(text: str) -> tuple[float, ...]:
    """Numbers that float32 holds, with commas between them."""
    return tuple(map(finite, text.split(",")))


def tolerance(text: str) -> float:
    """A number that is not negative; how large it may be depends on what is compared."""
    value = _number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is negative")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is not a finite number")
    if value and abs(value) <= FLOAT32_MAX and struct.unpack("<f", struct.pack("<f", value))[0] == 0:
        raise argparse.ArgumentTypeError(
            f"{_quoted(text)} is 0 in float32, whose smallest positive number is {FLOAT32_LEAST:.9g}"
        )
    return value


def path(text: str) -> Path:
    """A path; an empty one, which would mean the current folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; give . for the current folder")
    return Path(text)
