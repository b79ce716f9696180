"""The cycles of each step and tile: by the cost model, and by a target's own records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from deployer.core.errors import RunFailed
from deployer.core.level import followers
from deployer.core.plan import Plan

STEP, INGRESS, KERNEL, EGRESS = range(4)
NO_STEP = 0xFFFFFFFF
EMPTY_STEPS = 4
"""Records without a step at the start of a profile; the time between two of them is the cost of one record."""


@dataclass(frozen=True)
class StepProfile:
    """Cycles of one step, means over all passes; the tuples hold an entry per tile.

    `source` is `model` or `measured`; `predicted` is the model's sum, `cycles` that of the source, what recording takes
    taken off. Measured waits and kernels include their own recording.
    """

    step: int
    name: str
    op: str
    source: str
    ingress_wait: tuple[int, ...]
    kernel: tuple[int, ...]
    egress_wait: tuple[int, ...]
    cycles: int
    predicted: int


@dataclass
class _Record:
    """One run of a step: when it began and ended, and its events in order."""

    step: int
    begin: int
    events: list[tuple[int, int]]
    end: int = 0


def model_profile(plan: Plan) -> list[StepProfile]:
    """A row per step as the cost model sees it."""
    return [
        StepProfile(
            s.index,
            s.name,
            s.op,
            "model",
            s.timeline.ingress_wait,
            s.tile_cycles,
            s.timeline.egress_wait,
            s.cycles,
            s.cycles,
        )
        for s in plan.steps
    ]


def measured_profile(plan: Plan, steps: bytes, tiles: bytes) -> list[StepProfile]:
    """A row per step from two profiles: one with the steps' times alone, one with every wait and kernel.

    All cycles of a fused launch, and the model's prediction of them, are counted for its first step.
    """
    records = _records(steps)
    empty = [v.end - v.begin for v in records[: EMPTY_STEPS - 1]]
    totals = _by_step(records)
    detailed = _by_step(_records(tiles))
    rows, following = [], followers(plan.fused_launches)
    predicted = {s.index: s.cycles for s in plan.steps}
    for launch in plan.fused_launches:
        predicted[launch.first] += sum(predicted.pop(step) for step in launch.followers)
    for s in plan.steps:
        if s.index in following:
            rows.append(StepProfile(s.index, s.name, s.op, "measured", (0,), (0,), (0,), 0, 0))
            continue
        if s.index not in totals or s.index not in detailed:
            raise RunFailed(f"the profile has no record of step {s.index} {s.name!r}")
        spans = [(v.end - v.begin) % (1 << 32) - min(empty) for v in totals[s.index]]
        means = np.mean([_per_tile(v.events, s.tiles) for v in detailed[s.index]], axis=0).round().astype(int)
        ingress, kernel, egress = (tuple(int(x) for x in row) for row in means)
        cycles = round(sum(spans) / len(spans))
        rows.append(StepProfile(s.index, s.name, s.op, "measured", ingress, kernel, egress, cycles, predicted[s.index]))
    return rows


def _records(content: bytes) -> list[_Record]:
    """The records of a profile, grouped by the run of a step."""
    words = np.frombuffer(content, np.uint32).reshape(-1, 2)
    records: list[_Record] = []
    rows = iter(words.tolist())
    for kind, value in rows:
        if kind != STEP:
            records[-1].events.append((kind, value))
            continue
        _, time = next(rows)
        if records:
            records[-1].end = time
        records.append(_Record(value, time, []))
    return records


def _by_step(records: list[_Record]) -> dict[int, list[_Record]]:
    by_step: dict[int, list[_Record]] = {}
    for record in records:
        if record.step != NO_STEP:
            by_step.setdefault(record.step, []).append(record)
    return by_step


def _per_tile(events: Sequence[tuple[int, int]], tiles: int) -> list[list[int]]:
    """Ingress waits, kernel and egress waits summed per tile; what comes after the last kernel belongs to the last."""
    sums = [[0] * tiles for _ in range(3)]
    tile = 0
    for kind, cycles in events:
        at = min(tile, tiles - 1) if kind != EGRESS else max(min(tile, tiles) - 1, 0)
        sums[kind - 1][at] += cycles
        tile += kind == KERNEL
    return sums


def profile_table(rows: Sequence[StepProfile]) -> Table:
    """A table of the steps' cycles and of the model's prediction, with a line for the sum."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (
        "step",
        "operator",
        "tiles",
        "ingress wait",
        "kernel",
        "egress wait",
        "cycles",
        "predicted",
        "off by",
    ):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for r in rows:
        waits = (len(r.kernel), sum(r.ingress_wait), sum(r.kernel), sum(r.egress_wait), r.cycles, r.predicted)
        table.add_row(str(r.step), r.op, *map(str, waits), _error(r.predicted, r.cycles))
    cycles, predicted = sum(r.cycles for r in rows), sum(r.predicted for r in rows)
    table.add_row("", "sum", "", "", "", "", str(cycles), str(predicted), _error(predicted, cycles), style="bold")
    return table


def _error(predicted: int, cycles: int) -> str:
    return f"{100 * (predicted - cycles) / max(cycles, 1):+.1f} %"
