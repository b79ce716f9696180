"""The table of steps at the top of a graph's C file: a row for each kind of step, with the numbers of all of them."""

import textwrap
from collections.abc import Callable, Mapping, Sequence

from deployer.codegen.c_text import WIDTH
from deployer.core.plan import PlanStep

PLANNED: dict[str, Callable[[PlanStep], object]] = {
    "tiles": lambda step: step.tiles,
    "buffering": lambda step: step.buffering,
    "in B": lambda step: step.bytes_in,
    "out B": lambda step: step.bytes_out,
    "cycles": lambda step: step.cycles,
}
"""Columns of what a plan decides."""


def step_rows(steps: Sequence[PlanStep], columns: Mapping[str, Callable[[PlanStep], object]] = PLANNED) -> list[str]:
    """The lines of the table, columns of numbers before those of names, which need no padding.

    Steps that differ in their nodes alone, as those of equal layers do, have the row of the first, and below it the
    numbers of the others.
    """
    kinds: dict[tuple[str, ...], list[PlanStep]] = {}
    for s in steps:
        kinds.setdefault((*(str(of(s)) for of in columns.values()), s.op_label, tile_text(s)), []).append(s)
    rows: list[tuple[str, ...]] = [("step", *columns, "operator, node and tile")]
    for (*cells, label, tile), (first, *_) in kinds.items():
        rows.append((str(first.index), *cells, f"{label} {first.name}: {tile}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)] + [0]
    head, *firsts = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    lines = [head]
    for line, alike in zip(firsts, kinds.values(), strict=True):
        lines += [line, *_others(alike[1:], widths[0] + 2)]
    return lines


def _others(steps: Sequence[PlanStep], indent: int) -> list[str]:
    """The lines with the numbers of the other steps of a kind."""
    numbers = ", ".join(str(s.index) for s in steps)
    return [f"{'':{indent}}{line}" for line in textwrap.wrap(f"and {numbers}", WIDTH - indent)] if steps else []


def tile_text(step: PlanStep) -> str:
    """Tile lengths as `dim=tile/extent`, or `dim=tile/stage/extent` for a dim that the stage splits."""
    lengths = []
    for d in step.dims:
        if d.size > 1:
            lengths.append(
                f"{d.name}={d.tile}/{d.size}" if d.outer == d.size else f"{d.name}={d.tile}/{d.outer}/{d.size}"
            )
    return " ".join(lengths) or "1"
