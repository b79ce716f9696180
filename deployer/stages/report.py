"""Report: what a run showed beside what was expected and predicted, for people and as JSON."""

from dataclasses import asdict, dataclass

import numpy as np
from rich.table import Table

from deployer.operator import Array
from deployer.plan import Plan, PlanStep
from deployer.render import tile_text
from deployer.safe_text import json_text, one_line
from deployer.stages.run import Outcome
from deployer.terminal import Terminal

RELATIVE = 1e-6
"""What an inference output may differ by, besides the tolerance, as a share of its tensor's largest expected magnitude:
some eight units in the last place, since sums of such elements round on that scale however small a result is."""


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference of a tensor from its expected value, and where."""

    name: str
    largest: float
    index: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """The verdict of a run: `faults` is empty where losses are within `tolerance`, arrays within `relative` more."""

    reference: str
    tolerance: float
    relative: float
    losses: tuple[float, ...]
    loss_difference: float
    weights: tuple[Difference, ...]
    faults: tuple[str, ...]
    bench: dict[str, str]
    predicted: dict[str, int]

    @property
    def passed(self) -> bool:
        """Whether nothing was beyond the tolerance."""
        return not self.faults


def run(
    plan: Plan,
    outcome: Outcome,
    losses: tuple[float, ...],
    expected: dict[str, Array],
    reference: str,
    tolerance: float,
    relative: float = 0.0,
) -> Report:
    """Compare every loss and every expected array with what the program dumped; NaN is a fault.

    Losses may differ by `tolerance`, arrays by `relative` times their largest expected magnitude more.
    """
    faults = []
    loss_difference = 0.0
    for index, (found, wanted) in enumerate(zip(outcome.losses, losses, strict=True)):
        difference = abs(found - wanted)
        loss_difference = max(loss_difference, difference) if difference == difference else float("nan")
        if not difference <= tolerance:
            faults.append(f"loss {index}: computed {found:.9g}, expected {wanted:.9g}")
    differences = []
    for name in sorted(expected):
        difference_of = _difference(name, outcome.arrays[name], expected[name])
        differences.append(difference_of)
        if not difference_of.largest <= tolerance + relative * float(np.abs(expected[name]).max(initial=0.0)):
            faults.append(f"{name}{list(difference_of.index)}: differs by {difference_of.largest:.3e}")
    predicted = {graph: plan.cycles(graph) for graph in plan.graphs}
    return Report(
        reference,
        tolerance,
        relative,
        outcome.losses,
        loss_difference,
        tuple(differences),
        tuple(faults),
        outcome.bench,
        predicted,
    )


def _difference(name: str, found: Array, wanted: Array) -> Difference:
    distance = np.abs(found.astype(np.float64) - wanted.astype(np.float64).reshape(found.shape))
    if not distance.size:
        return Difference(name, 0.0, ())
    at = int(np.argmax(np.where(np.isnan(distance), np.inf, distance)))
    return Difference(name, float(distance.flat[at]), tuple(int(i) for i in np.unravel_index(at, distance.shape)))


def as_json(report: Report) -> str:
    """The report as JSON."""
    return json_text(asdict(report))


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
    return str(step.index), step.shown, tile_text(step), *map(str, numbers)


def show(report: Report, plan: Plan, console: Terminal) -> None:
    """The verdict in a few lines."""
    for level in plan.levels:
        over = level.peak - level.bound
        console.print(
            f"{level.name}: peak {level.peak} B of {level.budget} B, lower bound {level.bound} B, gap {over} B"
        )
    staged = [s.staging for s in plan.steps if s.staging]
    if staged:
        moved = sum(x.bytes_in + x.bytes_out for x in staged)
        busy, wait = sum(x.busy for x in staged), sum(x.wait for x in staged)
        hidden = 100 * (1 - min(wait / max(busy, 1), 1.0))
        console.print(
            f"{plan.levels[2].name}: {len(staged)} of {len(plan.steps)} steps move {moved} B through "
            f"{plan.levels[1].name}, engine busy {busy} cycles, {wait} waited for, {hidden:.0f} % hidden (model)"
        )
    worst = max((d for d in report.weights), key=lambda d: d.largest, default=None)
    count = len(report.losses)
    if count:
        console.print(f"losses: {count}, largest difference {report.loss_difference:.2e} from {report.reference}")
    if worst is not None:
        console.print(
            f"tensors: {len(report.weights)}, largest difference {worst.largest:.2e} ({one_line(worst.name)})"
        )
    for fault in report.faults[:10]:
        console.print(f"FAULT {one_line(fault)}", style="bold red")
    if len(report.faults) > 10:
        console.print(f"and {len(report.faults) - 10} more faults", style="bold red")
    allowed = f"{report.tolerance:g}" + (f" + {report.relative:g} of the largest" if report.relative else "")
    verdict = "passed" if report.passed else f"FAILED: {len(report.faults)} values beyond {allowed}"
    console.print(verdict, style="bold green" if report.passed else "bold red")
