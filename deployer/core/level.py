"""Levels: a target's memories, numbered from the innermost, and what the first of them are to a plan.

A hop has the number of its inner level. A step has a loop per hop that its operands pass through, with slots in the
level of that number.
"""

from dataclasses import dataclass

ALIASES = ("l1", "l2")
"""Options of the command line that limit a level by its number."""
RESIDENT, USUAL, SPILLED = range(3)
"""Where homes lie: in the level that kernels work in, in the next one out as most do, or beyond that."""
DEPTH = 1 + SPILLED
"""Levels that a plan may use."""


@dataclass(frozen=True)
class Level:
    """A memory: its bytes, the share a plan may use, and what is kept out of the plan (stacks, code)."""

    name: str
    bytes: int
    budget: int
    reserved: int


@dataclass(frozen=True)
class Slots:
    """Slots of an operand in one level: how many, the bytes of each, and where the first begins."""

    count: int = 0
    bytes: int = 0
    offset: int = 0
