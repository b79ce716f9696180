"""The cost model, in cycles, which the solver, the timeline and the report share.

The solver evaluates many tiles at once, so the functions it shares with the timeline take arrays as well as integers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from deployer.core.kernel import Work
from deployer.core.level import L_INNER, Channel, Count, Hop
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


def cost_key(code: str, cost_class: str) -> str:
    """The key of a cost in a target's data, for one cost class of a kernel, or of its function for some calls.

    `code` is the kernel's symbol, or has the name of such a function behind it.
    """
    return f"{code}.{cost_class}" if cost_class else code


def kernel_cost(target: Target, code: str, cost_class: str = "") -> KernelCost:
    """The cost for one class of work; where the target has none, the cost of `default`."""
    return cost_of(target, cost_key(code, cost_class))


def cost_of(target: Target, key: str) -> KernelCost:
    """The same by the key.

    A function that was not measured in a cost class costs what another function of its kernel does: that for all
    calls, or the first that has the class.
    """
    return target.kernels.get(key) or _nearest(target, key) or target.kernels["default"]


def _nearest(target: Target, key: str) -> KernelCost | None:
    symbol, _, rest = key.partition(".")
    cost_class = rest.rpartition(".")[2]
    similar = [other for other in target.kernels if other.startswith(f"{symbol}.") and other.endswith(f".{cost_class}")]
    return target.kernels[min(similar, key=lambda other: (other.count("."), other))] if cost_class and similar else None


def without_cost(target: Target, symbols: Iterable[str]) -> tuple[str, ...]:
    """The kernels, sorted, for which the target has no cost in any class; the model uses `default` for them."""
    kernels = {key.partition(".")[0] for key in target.kernels}
    return tuple(sorted(set(symbols) - kernels))


class CallCost(NamedTuple):
    """The cost of a call, or of many as arrays: `call` cycles for any, `milli` thousandths for the busiest core."""

    call: int
    milli: int

    @property
    def cycles(self) -> int:
        """Cycles of the call."""
        return self.call + -(-self.milli // 1000)

    def scaled(self, share: Share) -> Share:
        """Thousandths of a cycle for a fraction of the call's work, without rounding to whole pieces."""
        return self.milli * share


def phases(work: Work) -> Iterator[Work]:
    """Work, and what follows it in other cost classes."""
    yield work
    if work.then is not None:
        yield from phases(work.then)


def all_macs(work: Work) -> int:
    """The multiply-accumulates of work in all its phases."""
    return sum(phase.macs for phase in phases(work))


def call_cost(target: Target, code: str, work: Work) -> CallCost:
    """The cost of a call with that work, on the core that has most of its parallel pieces.

    A call whose code was evicted costs a part of the kernel's `cold` more, each tile after a step's first the target's
    `tile`.
    """
    call = milli = 0
    for phase in phases(work):
        cost = kernel_cost(target, code, phase.cost_class)
        all_cores = (
            phase.products * cost.mac_milli
            + phase.elements * cost.element_milli
            + phase.inner_loop_starts * cost.run_milli
        )
        call += cost.call
        milli += all_cores * -(-phase.parallel // target.cores) // max(phase.parallel, 1)
    return CallCost(target.dispatch + call, milli)


def cold_start(target: Target, code: str, work: Work) -> int:
    """Return the extra cycles of a call with that work if all of its code was evicted.

    Of several phases the longest decides: cores reach the others at different times, and fetch while others compute.
    """
    return max(kernel_cost(target, code, phase.cost_class).cold for phase in phases(work))


def kernel_cycles(target: Target, code: str, work: Work) -> int:
    """Cycles of one kernel call: dispatch, and the core that has most of the parallel pieces."""
    return call_cost(target, code, work).cycles


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
        cycles = channel.cycles(size, lines, self.contention if hop == L_INNER else 0)
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
