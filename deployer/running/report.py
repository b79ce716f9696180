"""Report: the results of a run compared with the expected and predicted ones, for people and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table

from deployer.codegen.render import tile_text
from deployer.core.cost import without_cost
from deployer.core.errors import DeployerWarning
from deployer.core.level import SPILLED, USUAL
from deployer.core.plan import Plan, PlanStep, target_of
from deployer.core.safe_text import json_text, one_line
from deployer.running.run import Outcome
from deployer.running.terminal import Terminal
from deployer.verify import verdict
from deployer.verify.verdict import Difference, Expected, Movement

MOST_FAULTS = 10
"""At most so many faults are printed; report.json has all of them."""


@dataclass(frozen=True)
class Report:
    """The verdict of a run; `faults` is empty where it passed.

    Losses must be within `tolerance`, arrays within `relative` times their largest expected magnitude more; trained
    tensors must also have moved as expected, and accumulators hold what is expected.
    """

    reference: str
    tolerance: float
    relative: float
    losses: tuple[float, ...]
    loss_difference: float
    weights: tuple[Difference, ...]
    movements: tuple[Movement, ...]
    accumulators: tuple[Movement, ...]
    faults: tuple[str, ...]
    bench: dict[str, str]
    predicted: dict[str, int]
    assumed: tuple[str, ...] = ()
    """Kernels whose cycles are those of the target's default kernel."""

    @property
    def passed(self) -> bool:
        """Whether the run has no fault."""
        return not self.faults


def make_report(plan: Plan, outcome: Outcome, expected: Expected, tolerance: float, relative: float = 0.0) -> Report:
    """Compare every loss, every expected array and every movement with what the program dumped; NaN is a fault.

    Losses may differ by `tolerance`, arrays by `relative` times their largest finite expected magnitude more;
    movements by what tolerances.toml allows.
    """
    loss_difference, faults = _losses(outcome.losses, expected.losses, tolerance)
    wild = verdict.nan_names({**expected.arrays, **expected.accumulators})
    faults += [f"{name}: NaN is expected, which nothing is equal to" for name in wild]
    moved = verdict.movements(outcome.arrays, expected) if not wild else ()
    sums = verdict.accumulator_movements(outcome.accumulators, expected) if not wild else ()
    faults += [f"{m.name} moved {m}" for m in moved if not m.passed]
    faults += [f"{m.name} holds {m}" for m in sums if not m.passed]
    faults += [f"{name} is frozen and has changed" for name in verdict.changed_names(outcome.arrays, expected.frozen)]
    differences = tuple(verdict.difference(n, outcome.arrays[n], a) for n, a in sorted(expected.arrays.items()))
    for difference in differences:
        values = expected.arrays[difference.name]
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if not difference.largest <= tolerance + relative * largest:
            faults.append(f"{difference.name}{list(difference.index)}: differs by {difference.largest:.3e}")
    return Report(
        reference=expected.reference,
        tolerance=tolerance,
        relative=relative,
        losses=outcome.losses,
        loss_difference=loss_difference,
        weights=differences,
        movements=moved,
        accumulators=sums,
        faults=tuple(faults),
        bench=outcome.bench,
        predicted={graph: plan.cycles(graph) for graph in plan.graphs},
        assumed=without_cost(target_of(plan.options), (step.kernel.symbol for step in plan.steps)),
    )


def _losses(losses: Sequence[float], expected: Sequence[float], tolerance: float) -> tuple[float, list[str]]:
    """The largest difference of all losses, NaN if one is, and the faults."""
    distances = verdict.distances(np.array(losses), np.array(expected))
    beyond = [i for i, distance in enumerate(distances) if not distance <= tolerance]
    texts = [f"loss {i}: computed {losses[i]:.9g}, expected {expected[i]:.9g}" for i in beyond]
    return float(distances.max(initial=0.0)), texts


def as_json(report: Report, warnings: Sequence[DeployerWarning] = ()) -> str:
    """The report as JSON, with the warnings about the case's files."""
    record = {**asdict(report), "warnings": [warning.record for warning in warnings]}
    return json_text(_printable(record), allow_nan=False)


def _printable(value: Any) -> Any:
    """The value with NaN and infinities as text, for which JSON has no number."""
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def step_table(plan: Plan) -> Table:
    """Per step: tile, tiles, buffering, DMA bytes and predicted cycles."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("step", "operator", "tile of whole", "tiles", "buffering", "DMA in", "DMA out", "cycles"):
        table.add_column(heading, justify="left" if heading in ("operator", "tile of whole", "buffering") else "right")
    for step in plan.steps:
        table.add_row(*step_cells(step))
    return table


def step_cells(step: PlanStep) -> tuple[str, ...]:
    """A step's row: index, operator, tile, tiles, buffering, bytes in and out, predicted cycles."""
    numbers = (step.tiles, step.buffering, step.bytes_in, step.bytes_out, step.cycles)
    return str(step.index), step.op_label, tile_text(step), *map(str, numbers)


def show(report: Report, plan: Plan, console: Terminal) -> None:
    """Print memory peaks, staging, losses, weights and the verdict."""
    for level in plan.levels:
        gap = level.peak - level.bound
        console.print(
            f"{level.name}: peak {level.peak} B of {level.budget} B, lower bound {level.bound} B, gap {gap} B"
        )
    staged = [s.staging for s in plan.steps if s.staging]
    if staged:
        moved = sum(x.bytes_in + x.bytes_out for x in staged)
        busy, wait = sum(x.busy for x in staged), sum(x.wait for x in staged)
        hidden = 100 * (1 - min(wait / max(busy, 1), 1.0))
        console.print(
            f"{plan.levels[SPILLED].name}: {len(staged)} of {len(plan.steps)} steps move {moved} B through "
            f"{plan.levels[USUAL].name}, engine busy {busy} cycles, {wait} waited for, {hidden:.0f} % hidden (model)"
        )
    if report.assumed:
        names = ", ".join(report.assumed)
        console.print(
            f"costs: target {plan.options.target} has none for {names}; those of its default kernel are taken"
        )
    _show_values(report, console)
    for fault in report.faults[:MOST_FAULTS]:
        console.print(f"FAULT {one_line(fault)}", style="bold red")
    if len(report.faults) > MOST_FAULTS:
        console.print(f"and {len(report.faults) - MOST_FAULTS} more faults", style="bold red")
    allowed = f"{report.tolerance:g}" + (f" + {report.relative:g} of the largest" if report.relative else "")
    verdict_text = "passed" if report.passed else f"FAILED: {len(report.faults)} faults, {allowed} allowed per value"
    console.print(verdict_text, style="bold green" if report.passed else "bold red")


def _show_values(report: Report, console: Terminal) -> None:
    """A line each for losses, tensors, movements and accumulators, with the worst of them."""
    if report.losses:
        count = len(report.losses)
        console.print(f"losses: {count}, largest difference {report.loss_difference:.2e} from {report.reference}")
    if report.weights:
        worst = max(report.weights, key=lambda d: d.largest if d.largest == d.largest else math.inf)
        text = f"tensors: {len(report.weights)}, largest difference {worst.largest:.2e} ({one_line(worst.name)})"
        console.print(text)
    for label, rows in (("movements", report.movements), ("accumulators", report.accumulators)):
        if rows:
            most = max(rows, key=lambda m: m.severity)
            console.print(f"{label}: {len(rows)}, worst {most} ({one_line(most.name)})")
