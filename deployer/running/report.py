"""Report: the results of a run compared with the expected and predicted ones, for people and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table

from deployer.core.cost import without_cost
from deployer.core.errors import FACTS, DeployerWarning
from deployer.core.ir import TensorRecord
from deployer.core.level import L_HOME, L_OUTER
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import json_text, one_line
from deployer.reports.facts import RunFacts
from deployer.reports.run_page import Figures, RunPage
from deployer.reports.steps import STEP_HEADINGS, step_cells
from deployer.running.run import Outcome
from deployer.running.terminal import Terminal
from deployer.running.watch import Divergence, Drift, drift_of
from deployer.verify import verdict
from deployer.verify.checks import Checks, Judge
from deployer.verify.verdict import Expected, Movement, TensorDifference

MOST_FAULTS = 10
"""At most so many faults are printed; report.json has all of them."""

WARNINGS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "cause": {"type": "string"},
            "facts": FACTS,
            "hint": {"type": "string"},
        },
        "required": ["cause", "facts", "hint"],
        "additionalProperties": False,
    },
}
"""The JSON schema of a report's warnings, as `DeployerWarning.record` makes them."""

CLOCK = "clock"
"""The figure of a run that is no number: what counts its cycles."""
LONG = 16
"""From so many passes on a run's drift is shown even where it is within the tolerance."""


@dataclass(frozen=True)
class Report:
    """The verdict of a run; `faults` is empty where it passed.

    Losses must be within `tolerance`, arrays within `relative` times their largest expected magnitude more; trained
    tensors must also have moved as expected, and accumulators hold what is expected. What is beyond that without being
    a fault, because each checked pass is right from its own state, stands in `drifted`. `diverged` says which step of
    the first wrong pass diverges first.
    """

    verdict: str

    reference: str
    tolerance: float
    relative: float
    losses: tuple[float, ...]
    loss_difference: float
    weights: tuple[TensorDifference, ...]
    movements: tuple[Movement, ...]
    accumulators: tuple[Movement, ...]
    faults: tuple[str, ...]
    drifted: tuple[str, ...]
    checks: Checks
    drift: Drift | None
    divergence: Divergence | None
    diverged: str
    bench: dict[str, int]
    clock: str
    predicted: dict[str, int]
    costs_of: str
    """The target whose costs of kernels the prediction takes."""
    model_of: str
    """The target whose kernel model it takes; empty for the default."""
    assumed: tuple[str, ...] = ()
    """Kernels whose cycles are those of the target's default kernel."""
    notes: tuple[str, ...] = ()
    """Lines on what of the run is other than the graphs say."""
    tensors: tuple[TensorRecord, ...] = ()
    """Role of each float tensor of the training graph."""
    expected_losses: tuple[float, ...] = ()
    about: RunFacts | None = None
    figures: Figures | None = None
    """What the pictures of report.html show."""

    @property
    def passed(self) -> bool:
        """Whether the run has no fault."""
        return not self.faults


def make_report(
    plan: Plan,
    outcome: Outcome,
    expected: Expected,
    tolerance: float,
    relative: float = 0.0,
    judge: Judge | None = None,
) -> Report:
    """Compare every loss, every expected array and every movement with what the program dumped.

    NaN is a fault where it is not expected. Losses may differ by `tolerance`, or so many times it as they are above 1;
    arrays by it, and by `relative` times their largest finite expected magnitude more; movements by what
    tolerances.toml allows. Where `judge` finds every pass it checks right from the program's own state, a difference
    from the float64 run is drift; one from the case's own values is a fault unless explained. Of a run that diverged
    the passes that it made are compared, and no final value: it has none.
    """
    if outcome.divergence:
        losses = expected.losses[: len(outcome.losses)]
        expected = replace(expected, losses=losses, arrays={}, initial={}, frozen={}, accumulators={})
    loss_difference, faults = _losses(outcome.losses, expected.losses, tolerance)
    moved = verdict.movements(outcome.arrays, expected)
    sums = verdict.accumulator_movements(outcome.accumulators, expected)
    faults += [f"{m.name} moved {m}" for m in moved if not m.passed]
    held = [f"{m.name} holds {m}" for m in sums if not m.passed]
    sure = [*outcome.divergence]
    sure += [f"{name} is frozen and has changed" for name in verdict.changed_names(outcome.arrays, expected.frozen)]
    sure += [f"{m.name} did not move, {m.expected:.3g} expected" for m in moved if not m.passed and not m.moved]
    differences = tuple(verdict.difference(n, outcome.arrays[n], a) for n, a in sorted(expected.arrays.items()))
    for difference in differences:
        values = expected.arrays[difference.name]
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if not difference.largest <= tolerance + relative * largest:
            faults.append(f"{difference.name}{list(difference.index)}: differs by {difference.largest:.3e}")
    sure += [f"{d.name}: NaN" for d in differences if d.largest != d.largest]
    checks = judge.checks() if judge else Checks()
    if judge and faults and not expected.by_reference and not sure:
        checks = judge.explain_trajectory(checks, expected, outcome.losses, outcome.arrays)
    right = bool(checks.rows) and not checks.faults and not sure
    excused = [*faults, *held] if expected.by_reference or checks.trajectory_explained else held
    drifted = tuple(excused) if right else ()
    open_faults = [fault for fault in (*faults, *held) if fault not in drifted]
    target = target_of(plan.options)
    everything = tuple(dict.fromkeys((*outcome.divergence, *checks.faults, *sure, *open_faults)))
    return Report(
        reference=expected.reference,
        tolerance=tolerance,
        relative=relative,
        losses=outcome.losses,
        loss_difference=loss_difference,
        weights=differences,
        movements=moved,
        accumulators=sums,
        faults=everything,
        verdict="failed" if everything else "explained" if checks.explained else "passed",
        drifted=drifted,
        checks=checks,
        drift=drift_of(outcome.losses, expected.losses),
        divergence=None,
        diverged="",
        bench={name: int(text) for name, text in outcome.bench.items() if name != CLOCK},
        clock=outcome.bench.get(CLOCK, ""),
        predicted={graph: plan.cycles(graph) for graph in plan.graphs},
        costs_of=target.costs_of,
        model_of=target.model_of,
        assumed=without_cost(target, (step.kernel.symbol for step in plan.steps)),
        notes=expected.notes,
        tensors=expected.tensors,
        expected_losses=tuple(map(float, expected.losses)),
    )


def _losses(losses: Sequence[float], expected: Sequence[float], tolerance: float) -> tuple[float, list[str]]:
    """The largest difference of all losses, NaN if one is, and the faults."""
    distances = verdict.distances(np.array(losses), np.array(expected))
    known = np.array(expected, np.float64)
    sizes = np.where(np.isfinite(known), np.maximum(np.abs(known), 1), 1)  # a loss above 1 has more to round
    beyond = [i for i, distance in enumerate(distances) if not distance <= tolerance * sizes[i]]
    texts = [f"loss {i}: computed {losses[i]:.9g}, expected {expected[i]:.9g}" for i in beyond]
    return float(distances.max(initial=0.0)), texts


def as_json(report: Report, warnings: Sequence[DeployerWarning] = ()) -> str:
    """The report as JSON, with the warnings about the case's files."""
    record = {**asdict(report), "warnings": [warning.record for warning in warnings]}
    return json_text(printable(record), allow_nan=False)


def as_page(report: Report, plan: Plan) -> str:
    """The report as a page of HTML."""
    lines = [*report.faults, *(f"drift: {line}" for line in report.drifted), *report.notes]
    lines += [f"largest difference of a loss from {report.reference}: {report.loss_difference:.3g}"]
    assert report.about is not None
    assert report.figures is not None
    page = RunPage(
        report.about,
        report.verdict,
        lines,
        report.losses,
        expected=report.expected_losses,
        checks=report.checks.rows,
    )
    return page.html(plan, report.figures)


def result_record(report: Report) -> dict[str, object]:
    """The result of a run in short, for lines of JSON: verdict, faults, losses, what the program measured."""
    record = {
        "verdict": report.verdict,
        "faults": report.faults,
        "losses": report.losses,
        "loss_difference": report.loss_difference,
        "bench": report.bench,
        "clock": report.clock,
    }
    return dict(printable(record))


def printable(value: Any) -> Any:
    """The value with NaN and infinities as text, for which JSON has no number."""
    if isinstance(value, dict):
        return {key: printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def step_table(plan: Plan) -> Table:
    """Per step: tile, tiles, buffering, DMA bytes and predicted cycles."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in STEP_HEADINGS:
        table.add_column(heading, justify="left" if heading in ("operator", "tile of whole", "buffering") else "right")
    for step in plan.steps:
        table.add_row(*step_cells(step))
    return table


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
            f"{plan.levels[L_OUTER].name}: {len(staged)} of {len(plan.steps)} steps move {moved} B through "
            f"{plan.levels[L_HOME].name}, engine busy {busy} cycles, {wait} waited for, {hidden:.0f} % hidden (model)"
        )
    if {report.costs_of, report.model_of} != {plan.options.target}:
        console.print(f"prediction: {_sources(report)}")
    if report.assumed:
        names = ", ".join(report.assumed)
        console.print(
            f"costs: target {plan.options.target} has no costs for {names}; those of its default kernel are used"
        )
    for note in report.notes:
        console.print(note)
    _show_values(report, console)
    if report.diverged:
        console.print(f"first divergence: {one_line(report.diverged)}", style="bold red")
    for fault in report.faults[:MOST_FAULTS]:
        console.print(f"FAULT {one_line(fault)}", style="bold red")
    if len(report.faults) > MOST_FAULTS:
        console.print(f"and {len(report.faults) - MOST_FAULTS} more faults", style="bold red")
    allowed = f"{report.tolerance:g}" + (f" + {report.relative:g} of the largest" if report.relative else "")
    if report.faults:
        console.print(f"FAILED: {len(report.faults)} faults, {allowed} allowed per value", style="bold red")
    else:
        console.print(report.verdict, style="bold green" if report.verdict == "passed" else "bold yellow")


def _sources(report: Report) -> str:
    """Say whose costs and whose kernel model the predicted cycles come from."""
    if not report.model_of:
        return f"kernel costs of target {report.costs_of}, default kernel model (targets/common/kernel_model.toml)"
    if report.model_of == report.costs_of:
        return f"kernel costs and kernel model of target {report.costs_of}"
    return f"kernel costs of target {report.costs_of}, kernel model of target {report.model_of}"


def _show_values(report: Report, console: Terminal) -> None:
    """A line each for losses, tensors, update norms and accumulators, with the worst of them."""
    if report.losses:
        count = len(report.losses)
        console.print(f"losses: {count}, largest difference {report.loss_difference:.2e} from {report.reference}")
    if report.weights:
        worst = max(report.weights, key=lambda d: d.largest if d.largest == d.largest else math.inf)
        text = f"tensors: {len(report.weights)}, largest difference {worst.largest:.2e} ({one_line(worst.name)})"
        console.print(text)
    _show_checks(report, console)
    for label, rows in (("update norms", report.movements), ("accumulators", report.accumulators)):
        if rows:
            most = max(rows, key=lambda m: m.severity)
            console.print(f"{label}: {len(rows)}, worst {most} ({one_line(most.name)})")


def _show_checks(report: Report, console: Terminal) -> None:
    """A line on the passes checked from their own state, one on drift, and one for each flipped decision."""
    checks, drift = report.checks, report.drift
    if checks.rows:
        worst = checks.worst
        share = f"{100 * worst.severity:.2g} % of the bound (pass {worst.index}, {one_line(worst.worst)})"
        magnifying = sum(row.magnifies for row in checks.rows)
        rounding = f"; {magnifying} magnify rounding, and have larger bounds" if magnifying else ""
        console.print(
            f"per-step check: {len(checks.rows)} of {checks.passes} passes checked, at most {share}{rounding}"
        )
    if drift and (report.drifted or len(report.losses) >= LONG):
        growth = f"tenfold in {drift.tenfold:.0f} passes" if math.isfinite(drift.tenfold) else "not growing"
        console.print(f"drift: {drift.largest:.2e} at pass {drift.at}, {growth}  [{drift.line}]")
    for fault in report.drifted[:MOST_FAULTS]:
        console.print(f"drift, not a fault: {one_line(fault)}")
    if len(report.drifted) > MOST_FAULTS:
        console.print(f"and {len(report.drifted) - MOST_FAULTS} more drifted values")
    for flip in checks.explained:
        console.print(f"explained: {one_line(str(flip))}", style="bold yellow")
