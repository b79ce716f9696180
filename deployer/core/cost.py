"""The cost model, in cycles, which the solver, the timeline and the report share.

The solver evaluates many tiles at once, so the functions it shares with the timeline take arrays as well as integers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from deployer.core.level import RESIDENT, Channel, Count, Hop
from deployer.core.operator import Work
from deployer.core.plan import Buffering
from deployer.core.target import KernelCost, Target

Share = TypeVar("Share", float, npt.NDArray[np.float64])


def rounded(size: Count, alignment: int) -> Count:
    """Bytes of a buffer that ends on the alignment."""
    return -(-size // alignment) * alignment


def staged_cycles(inner: Count, tiles: Count, busy: Count, exposed: Count, buffering: Buffering) -> Count:
    """Cycles of a staged step: all inner loops take `inner` cycles, and the stage's DMA engine is `busy` as many.

    With single buffering the two take turns. Otherwise they run at once, except for `exposed` cycles of the engine and
    the inner loop of one tile; the longer of the two decides.
    """
    if buffering == "single":
        return inner + busy
    loop_bound, engine_bound = inner + exposed, busy + inner // tiles
    longer: Count = loop_bound + (engine_bound - loop_bound) * (engine_bound > loop_bound)
    return longer


def cost_key(symbol: str, form: str) -> str:
    """The key of a kernel's cost in a target's data, for one form of its work."""
    return f"{symbol}.{form}" if form else symbol


def kernel_cost(target: Target, symbol: str, form: str = "") -> KernelCost:
    """The cost of a kernel for one form of its work; where the target has none, the cost of `default`."""
    return target.kernels.get(cost_key(symbol, form)) or target.kernels["default"]


def without_cost(target: Target, symbols: Iterable[str]) -> tuple[str, ...]:
    """The kernels, sorted, for which the target has no cost in any form; the model uses `default` for them."""
    kernels = {key.partition(".")[0] for key in target.kernels}
    return tuple(sorted(set(symbols) - kernels))


class CallCost(NamedTuple):
    """The cost of a kernel call, or of many as arrays: `call` cycles for any, `milli` thousandths for work on a core.

    The work falls into `pieces`; the core with the most of them has `busiest`.
    """

    call: int
    milli: int
    busiest: int
    pieces: int

    @property
    def cycles(self) -> int:
        """Cycles of the call."""
        return self.call + -(-(self.milli * self.busiest // self.pieces) // 1000)

    def part(self, share: Share) -> Share:
        """Thousandths of a cycle for a fraction of the call's work, without rounding to whole pieces."""
        return self.milli * (self.busiest / self.pieces) * share


def call_cost(target: Target, symbol: str, work: Work) -> CallCost:
    """The cost of a call with that work.

    The first call in a pass costs the kernel's `cold` cycles more, each tile after a step's first the target's `tile`.
    """
    cost = kernel_cost(target, symbol, work.form)
    milli = work.products * cost.mac_milli + work.elements * cost.element_milli
    return CallCost(target.dispatch + cost.call, milli, -(-work.parallel // target.cores), max(work.parallel, 1))


def kernel_cycles(target: Target, symbol: str, work: Work) -> int:
    """Cycles of one kernel call: dispatch, and the core that has most of the parallel pieces."""
    return call_cost(target, symbol, work).cycles


@dataclass
class Clock:
    """Virtual time of the generated program: exactly what the host simulator computes.

    `contention` slows the bytes of the inner hop in a step whose transfers run under kernels, in thousandths.
    """

    hops: tuple[Hop, ...]
    contention: int = 0
    now: int = 0
    busy: dict[int, int] = field(default_factory=dict)
    free: dict[tuple[int, str], int] = field(default_factory=dict)

    def start(self, hop: int, direction: str, size: int, lines: int) -> int:
        """Start a transfer of `size` bytes in `lines` runs; the ticket is the cycle of its end, or 0 for no bytes."""
        if size == 0:
            return 0
        facts = self.hops[hop]
        channel: Channel = facts.inward if direction == "in" else facts.outward
        engine = hop, "in" if facts.shared else direction
        self.now += facts.issue
        cycles = channel.cycles(size, lines, self.contention if hop == RESIDENT else 0)
        end = max(self.now, self.free.get(engine, 0)) + cycles
        self.busy[hop] = self.busy.get(hop, 0) + cycles
        self.free[engine] = end
        return end

    def wait(self, hop: int, ticket: int) -> None:
        """Wait for the end of a transfer; ticket 0 needs no waiting."""
        if ticket:
            self.now = max(self.now, ticket) + self.hops[hop].wait

    def run(self, cycles: int) -> None:
        """Let a kernel run."""
        self.now += cycles
