"""Cycles of a library's uninterruptible segments: each step of a pass, an update, a prediction; by targets' costs.

A step of a library is one call of a kernel on one core, so that its cycles are those of the cost model alone.
"""

from dataclasses import dataclass, replace

from deployer.core import target as targets
from deployer.core.cost import kernel_cycles
from deployer.core.plan import Schedule, Step
from deployer.core.safe_text import CText, code, markdown_code
from deployer.core.target import Target
from deployer.kernel_variants.costs import StepCosts

MOST = 0xFFFFFFFF
"""The largest number of cycles that a table has."""


@dataclass(frozen=True)
class Segment:
    """Predicted cycles on one core of a target: of all steps of a pass, and of the longest step, which cannot pause.

    `longest` is that step's name, `graphs` has the cycles of the graphs that run in one go.
    """

    target: str
    pass_cycles: int
    longest: str
    longest_cycles: int
    graphs: dict[str, int]

    @property
    def title(self) -> CText:
        """The longest step, for a page."""
        return markdown_code(self.longest)

    @property
    def others(self) -> tuple[tuple[CText, int], ...]:
        """The graphs that run in one go, for a page."""
        return tuple((code(name), cycles) for name, cycles in self.graphs.items())

    @property
    def machine(self) -> CText:
        """The target's name, for a page."""
        return markdown_code(self.target)


def step_cycles(schedule: Schedule, graph: str, target: Target) -> tuple[int, ...]:
    """The cycles of each step of a graph on one core of a target, at most `MOST`."""
    single = replace(target, cores=1)
    return tuple(min(_cycles(step, single), MOST) for step in schedule.steps if step.graph == graph)


def _cycles(step: Step, target: Target) -> int:
    return target.step + kernel_cycles(target, *StepCosts(step, target).of(step.access.sizes))


def segments(schedule: Schedule) -> tuple[Segment, ...]:
    """The stretches by each target whose costs were measured."""
    measured = [name for name in targets.names() if targets.costs_file(name).is_file()]
    return tuple(_segment(schedule, targets.load(name)) for name in measured)


def _segment(schedule: Schedule, target: Target) -> Segment:
    first, *others = (graph.name for graph in schedule.program.graphs)
    cycles = step_cycles(schedule, first, target)
    names = [step.node.name for step in schedule.steps if step.graph == first]
    longest = max(range(len(cycles)), key=lambda index: cycles[index])
    rest = {name: sum(step_cycles(schedule, name, target)) for name in others}
    return Segment(target.name, sum(cycles), names[longest], cycles[longest], rest)
