"""The largest number of a target's file."""

from collections.abc import Iterator
from typing import Any

NUMBER = 2**31 - 1
"""Bytes, cycles, or thousandths of them."""


def too_large(value: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Place and value of each number that no machine has: sums of products with it would leave 64 bits."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from too_large(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from too_large(part, f"{place}[{i}]")
    elif isinstance(value, int) and abs(value) > NUMBER:
        yield place, value
