"""Memory levels of a target, numbered from the innermost, and the cost of the DMA engines (hops) between them.

Also the extra cycles of steps whose code was evicted from the instruction cache.

A hop has the number of its inner level. A step has one loop for each hop that its operands pass through, with slots in
the level of that number. Costs are in cycles, for one transfer or for arrays of transfers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from deployer.core.safe_text import identifier

if TYPE_CHECKING:  # the command line shows the names below, and waits for nothing else
    import numpy as np
    import numpy.typing as npt

ALIASES = ("l1", "l2")
"""Options of the command line that limit a level by its number."""
L_INNER, L_HOME, L_OUTER = range(3)
"""Numbers of the levels where homes lie: the one that kernels work in, the next one out as most do, or one beyond."""
DEPTH = 1 + L_OUTER
"""Levels that a plan may use."""

Count = TypeVar("Count", int, "npt.NDArray[np.int64]")


@dataclass(frozen=True)
class Level:
    """A memory: its bytes, the share a plan may use, and what is kept out of the plan (stacks, code)."""

    name: str
    """C identifier for messages, `--budget NAME=BYTES` and the generated C."""
    bytes: int
    """Physical size in bytes."""
    budget: int
    """Default of `--budget`: bytes for slots, resident tensors and argument tables."""
    reserved: int
    """Bytes kept out of every plan, such as stacks. `budget + reserved` is at most `bytes`."""

    @property
    def room(self) -> int:
        """The largest budget."""
        return self.bytes - self.reserved


@dataclass(frozen=True)
class LevelUse:
    """A level's budget and what the plan takes: `peak` the highest byte used, `bound` the most bytes live."""

    name: str
    budget: int
    peak: int
    bound: int

    def __post_init__(self) -> None:
        """Refuse a name that is no identifier of C: a plan may come from a file."""
        identifier(self.name)


@dataclass(frozen=True)
class Slots:
    """Slots of an operand in one level: how many, the bytes of each, and where the first begins."""

    count: int = 0
    bytes: int = 0
    offset: int = 0


@dataclass(frozen=True)
class CrossStepTransfer:
    """Cross-step transfer: begins in one step and ends in another; moves a step's operand `arg` at its outermost hop.

    The first ingress ("in") starts when the earlier step `at` begins; the last egress is awaited when the later step
    `at` ends. The operand's slots are in use from the one step to the other.
    """

    step: int
    arg: str
    direction: Literal["in", "out"]
    at: int


@dataclass(frozen=True)
class Residency:
    """Cached copy in the middle level of a storage at home in the outermost level; steps first..last use it.

    The copy lies there from step `begin` to step `end`. If `begin` is before `first`, it comes in: that starts when
    step `begin` begins, and is awaited when step first - 1 ends. If a later residency follows, it goes out: that
    starts behind the last step that writes it, and is awaited when step `end` ends.
    """

    storage: str
    begin: int
    first: int
    last: int
    end: int

    @property
    def name(self) -> str:
        """The name of the copy, which has a home of its own."""
        return f"{self.storage} in steps {self.first} to {self.last}"


@dataclass(frozen=True)
class FusedLaunch:
    """Fused launch: steps first..last, both included, whose kernel calls share one start of the cores.

    Each core makes all of the calls in turn, and waits for the other cores after the last one alone.
    """

    first: int
    last: int

    @property
    def steps(self) -> range:
        """All of its steps."""
        return range(self.first, self.last + 1)

    @property
    def followers(self) -> range:
        """The steps behind the first."""
        return self.steps[1:]


def followers(fused_launches: Iterable[FusedLaunch]) -> frozenset[int]:
    """The steps that run in the start of an earlier one, the first of their launch."""
    return frozenset(step for launch in fused_launches for step in launch.followers)


@dataclass(frozen=True)
class InstructionCache:
    """Instruction-cache model: a step's code is evicted while other steps run, and is fetched again.

    Code is counted by the cycles that it takes to fetch it; `fill_cycles` of them fill the cache, none where there is
    none. Forms of a kernel have code in common: `shared_permille` thousandths of the shortest one's.
    """

    fill_cycles: int
    """Cycles to refill the whole instruction cache; 0 if there is none."""
    shared_permille: int = 0
    """Thousandths of the code of a kernel's shortest variant that its other variants also execute."""

    def milli(self, others: int) -> int:
        """Thousandths of a kernel's cold start that return where so many cycles' other code ran since its last call."""
        return min(1000 * others // self.fill_cycles, 1000) if self.fill_cycles else 0


def slowed(cycles: Count, contention: int) -> Count:
    """Cycles of transfers that run during kernels, which make each byte slower by `contention` thousandths."""
    return cycles * (1000 + contention) // 1000


@dataclass(frozen=True)
class Channel:
    """Cost of one transfer direction: setup cycles, then thousandths of a cycle per byte and per contiguous run."""

    setup: int
    """Cycles of the engine per transfer."""
    byte_milli: int
    """Thousandths of a cycle per byte."""
    line_milli: int
    """Thousandths of a cycle per contiguous run in the outer level."""

    def cycles(self, size: Count, lines: Count, contention: int = 0) -> Count:
        """Cycles of the engine for `size` bytes in `lines` runs, each byte slower by `contention` thousandths."""
        bytes_milli = slowed(size * self.byte_milli, contention)
        return self.setup + (bytes_milli + lines * self.line_milli + 999) // 1000


@dataclass(frozen=True)
class Hop:
    """The DMA engine between a level and the next outer one; `shared` means one engine for both directions."""

    issue: int
    """Cycles of core 0 to start a transfer."""
    wait: int
    """Cycles of core 0 to wait for a transfer that has ended."""
    shared: bool
    """Whether one engine serves both directions, so that transfers in and out take turns."""
    inward: Channel
    """Transfers towards the cores; the key is `in`."""
    outward: Channel
    """Transfers away from the cores; the key is `out`."""
