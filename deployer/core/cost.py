"""The one cost model: the solver, the simulator's clock and the report all ask here. Cycles everywhere."""

from dataclasses import dataclass, field

from deployer.core.level import RESIDENT
from deployer.core.operator import Work
from deployer.core.target import Channel, Hop, KernelCost, Target


def cost_key(symbol: str, form: str) -> str:
    """The name under which a target's data has the cost of a kernel in one form of its work."""
    return f"{symbol}.{form}" if form else symbol


def kernel_cost(target: Target, symbol: str, form: str = "") -> KernelCost:
    """The cost of a kernel in a form, that of `default` where the target has none."""
    return target.kernels.get(cost_key(symbol, form)) or target.kernels["default"]


def kernel_cycles(target: Target, symbol: str, work: Work) -> int:
    """Cycles of one kernel call: dispatch, and the core that has most of the parallel pieces.

    The first call in a pass costs the kernel's `cold` cycles more, each tile after a step's first the target's `tile`.
    """
    cost = kernel_cost(target, symbol, work.form)
    busiest = -(-work.parallel // target.cores)
    milli = (work.products * cost.mac_milli + work.elements * cost.element_milli) * busiest // max(work.parallel, 1)
    return target.dispatch + cost.call + -(-milli // 1000)


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
