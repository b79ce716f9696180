"""The one cost model: the solver, the simulator's clock and the report all ask here. Cycles everywhere.

The solver asks for many tiles at once, so what both ask takes arrays as well as integers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deployer.core.level import RESIDENT, Channel, Count, Hop
from deployer.core.operator import Work
from deployer.core.plan import Buffering
from deployer.core.target import KernelCost, Target


def rounded(size: Count, alignment: int) -> Count:
    """Bytes of a buffer that ends on the alignment."""
    return -(-size // alignment) * alignment


def staged_cycles(inner: Count, tiles: Count, busy: Count, exposed: Count, buffering: Buffering) -> Count:
    """Cycles of a step whose tiles of a stage take `inner` in all, and the stage's engine `busy`.

    Tiles on one slot wait for it; else it works meanwhile, but for `exposed` cycles and those of one tile.
    """
    if buffering == "single":
        return inner + busy
    loop_bound, engine_bound = inner + exposed, busy + inner // tiles
    longer: Count = loop_bound + (engine_bound - loop_bound) * (engine_bound > loop_bound)
    return longer


def cost_key(symbol: str, form: str) -> str:
    """The name under which a target's data has the cost of a kernel in one form of its work."""
    return f"{symbol}.{form}" if form else symbol


def kernel_cost(target: Target, symbol: str, form: str = "") -> KernelCost:
    """The cost of a kernel in a form, that of `default` where the target has none."""
    return target.kernels.get(cost_key(symbol, form)) or target.kernels["default"]


def without_cost(target: Target, symbols: Iterable[str]) -> tuple[str, ...]:
    """Those of the kernels, sorted, that the target has no cost for in any form: `default` stands for them."""
    kernels = {key.partition(".")[0] for key in target.kernels}
    return tuple(sorted(set(symbols) - kernels))


@dataclass(frozen=True)
class CallCost:
    """What a kernel call costs: cycles of any call, and thousandths of its work on one core, of which the core that has
    most of the `pieces` does `busiest`."""

    call: int
    milli: int
    busiest: int
    pieces: int

    @property
    def cycles(self) -> int:
        """Cycles of the call."""
        return self.call + -(-(self.milli * self.busiest // self.pieces) // 1000)

    def part(self, share: float) -> float:
        """Thousandths of a share of the call's work, as long as it is not cut to whole pieces."""
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
        """Start a transfer of `size` bytes in `lines` runs; the ticket is its end. An empty one is never started."""
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
