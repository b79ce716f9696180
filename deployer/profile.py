"""Where the cycles of each tile go under the model: waiting for ingress, computing, waiting for egress."""

from dataclasses import dataclass

from rich.table import Table

from deployer.plan import Plan
from deployer.target import Target


@dataclass(frozen=True)
class StepProfile:
    """Cycles of one step; the tuples hold an entry per tile."""

    step: int
    name: str
    op: str
    ingress_wait: tuple[int, ...]
    kernel: tuple[int, ...]
    egress_wait: tuple[int, ...]
    other: int
    cycles: int


def profile_tiles(plan: Plan, target: Target) -> list[StepProfile]:
    """A row per step of the plan."""
    rows = []
    for step in plan.steps:
        t = step.timeline
        spent = sum(t.ingress_wait) + sum(step.tile_cycles) + sum(t.egress_wait)
        rows.append(
            StepProfile(
                step.index,
                step.name,
                step.op,
                t.ingress_wait,
                step.tile_cycles,
                t.egress_wait,
                step.cycles - spent,
                step.cycles,
            )
        )
    return rows


def profile_table(rows: list[StepProfile]) -> Table:
    """The rows in sum."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("step", "operator", "tiles", "ingress wait", "kernel", "egress wait", "other", "cycles"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for r in rows:
        numbers = (len(r.kernel), sum(r.ingress_wait), sum(r.kernel), sum(r.egress_wait), r.other, r.cycles)
        table.add_row(str(r.step), r.op, *map(str, numbers))
    return table
