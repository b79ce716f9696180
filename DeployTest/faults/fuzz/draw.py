"""Seeded choices: the same key gives the same choices on every machine."""

import random
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np

T = TypeVar("T")

INTEGERS = (0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, 255, 256, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32)
INTEGERS += (2**40, 2**63 - 1, -(2**63), 10**11)
"""Integers of an int64 field: neighbours of zero, of powers of two, and sizes no machine has."""
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-7, 1e-45, 3.4e38, -3.4e38, float("nan"), float("inf"), float("-inf"))
MARK = "zqMARKqz"
"""A part of every hostile name, by which tests find the name in written files."""
HOSTILE = (
    f'{MARK}*/ __asm__("{MARK}"); /*',
    f"{MARK}\n#include <{MARK}>\n",
    f"{MARK}\r\nint {MARK};",
    f"{MARK}\\",
    f'{MARK}??/\n__asm__("x");',
    f"{MARK}// {MARK}",
    f'{MARK}"); __asm__("{MARK}',
    f"<script>{MARK}</script>",
    f"{MARK}</script><img src=x onerror={MARK}>",
    f"{MARK}\x1b[31m\x1b]0;{MARK}\x07",
    f"{MARK}\u202e\u2066{MARK}",
    f"{MARK}\x00{MARK}",
    f"{MARK}\u2028{MARK}\u0085",
    f"../../{MARK}",
    f"/{MARK}/{MARK}",
    f"{MARK}%s%n%d",
    f"[bold red]{MARK}[/]",
    f"${{{MARK}}}<%{MARK}%>",
    f"{MARK} {MARK}",
    f"{MARK}" * 600,
    f"{MARK}é漢字🙂",
    "",
    " ",
    "main",
    "int",
    "args",
    "hal_step",
    "HOME_",
    "train",
    "__attribute__((constructor))",
    "0",
    "a.b",
    "a_b",
    "a-b",
    "A_B",
    "lazy_reset_grad",
    "loss",
)
"""Names that are code somewhere: in C comments, C identifiers, HTML, Mako, rich markup, a terminal, a path."""


class Draw:
    """A stream of choices from a key."""

    def __init__(self, *key: object) -> None:
        """Seed from the key's text."""
        self.random = random.Random("/".join(map(str, key)))

    def chance(self, share: float) -> bool:
        """True with that probability."""
        return self.random.random() < share

    def number(self, first: int, last: int) -> int:
        """A random integer from first to last, both included."""
        return self.random.randint(first, last)

    def one(self, items: Sequence[T]) -> T:
        """A random one of at least one item."""
        return items[self.random.randrange(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """So many different items, or all."""
        return self.random.sample(list(items), min(count, len(items)))

    def integer(self) -> int:
        """A small or an extreme integer."""
        return self.number(-3, 9) if self.chance(0.6) else self.one(INTEGERS)

    def floating(self) -> float:
        """An ordinary or an extreme number."""
        return self.random.uniform(-4, 4) if self.chance(0.4) else self.one(FLOATS)

    def name(self) -> str:
        """A hostile name."""
        return self.one(HOSTILE)

    def bytes(self, count: int) -> bytes:
        """Random bytes."""
        return self.random.randbytes(count)

    def array(self, shape: Sequence[int]) -> np.ndarray:
        """Standard normal float32 values."""
        generator = np.random.default_rng(self.random.getrandbits(64))
        return np.asarray(generator.standard_normal(tuple(shape)), np.float32)


def damaged(data: bytes, draw: Draw) -> bytes:
    """The bytes with one kind of damage."""
    if not data:
        return draw.bytes(draw.number(0, 8))
    at = draw.number(0, len(data) - 1)
    length = min(draw.number(1, 16), len(data) - at)
    match draw.number(0, 9):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ (1 << draw.number(0, 7))]) + data[at + 1 :]
        case 2:
            return data[:at] + draw.bytes(length) + data[at + length :]
        case 3:
            return data[:at] + data[at + length :]
        case 4:
            return data[:at] + draw.bytes(length) + data[at:]
        case 5:
            other = draw.number(0, len(data) - length)
            return data[:at] + data[other : other + length] + data[at:]
        case 6:
            return data[:at] + struct.pack("<q", draw.integer())[:length] + data[at + length :]
        case 7:
            return data[:at] + draw.one((b"\xff", b"\x00", b"\x80")) * length + data[at + length :]
        case 8:
            with suppress(UnicodeDecodeError):
                return data.decode().encode(draw.one(("utf-8-sig", "utf-16", "utf-16-le", "utf-32")))
    return data[:at] + bytes([draw.one((0, 1, 0x7F, 0x80, 0xFE, 0xFF))]) + data[at + 1 :]
