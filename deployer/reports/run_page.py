"""The page of a run, report.html, and the same without plan for notebooks: one generator for all commands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deployer.core.ir import Program
from deployer.core.plan import Plan
from deployer.core.safe_text import html_text
from deployer.reports.confusion import Confusion, confusion
from deployer.reports.facts import RunFacts
from deployer.reports.html import Section, definitions, folded, fragment, page, table
from deployer.reports.memory import LevelMap, memory_of, memory_sections
from deployer.reports.plot import Plot, Points, Vertical, scale_of, thinned
from deployer.reports.roofline import Roofline, roofline, roofline_of
from deployer.reports.steps import STEP_HEADINGS, StepTime, step_cells, timeline, timeline_of
from deployer.verify.checks import PassCheck

POINTS = 400
"""A curve has at most so many points: each is the mean of as many passes as it takes."""
LOSS = "loss"
SHARES = ("accuracy", "top_")
"""Metrics of such names lie between 0 and 1."""


class ShownEpoch(Protocol):
    """An epoch, as its history has it."""

    @property
    def epoch(self) -> int:
        """Its number, from 1 on."""

    @property
    def passes(self) -> int:
        """Passes made by its end."""

    @property
    def loss(self) -> float:
        """The mean loss of its passes."""

    @property
    def rate(self) -> float:
        """The learning rate."""

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the validation by name."""


@dataclass(frozen=True)
class Figures:
    """Content of a plan's pictures: the memory map, the timeline, the roofline."""

    memory: tuple[LevelMap, ...]
    timeline: tuple[StepTime, ...]
    roofline: Roofline


def figures_of(plan: Plan, fused: Program) -> Figures:
    """The figures of a plan; `fused` is the program whose nodes are its steps."""
    return Figures(memory_of(plan), timeline_of(plan), roofline_of(plan, fused))


@dataclass(frozen=True, eq=False)
class RunPage:
    """The content of a page. `per_epoch` is the number of passes of an epoch; 0 for a run that counts passes alone.

    `expected` are the losses of the reference, where the run was compared with some; `lines` say what was checked.
    """

    about: RunFacts
    verdict: str
    lines: Sequence[str] = ()
    losses: Sequence[float] = ()
    per_epoch: int = 0
    expected: Sequence[float] = ()
    rows: Sequence[ShownEpoch] = ()
    checks: Sequence[PassCheck] = ()
    confusion: Confusion | None = None

    def html(self, plan: Plan, figures: Figures) -> str:
        """The whole page, with what the plan says."""
        steps = folded(f"{len(plan.steps)} steps", table(STEP_HEADINGS, [step_cells(step) for step in plan.steps]))
        sections = [
            *self._curves(),
            *self._checked(),
            Section("Timeline of a pass", timeline(figures.timeline, plan.options.target)),
            Section("Roofline", roofline(figures.roofline)),
            *(
                Section(f"Memory: {section.title}", section.body)
                for section in memory_sections(figures.memory, len(plan.steps))
            ),
            Section("Steps", steps),
        ]
        return page(f"{self.verdict}: {self.about.model or 'run'}", self._top(), sections)

    def fragment(self) -> str:
        """Curves and tables for a page of somebody else."""
        return fragment(self._top(), [*self._curves(), *self._checked()])

    def _top(self) -> str:
        verdict = html_text(self.verdict)
        title = html_text(self.about.model or "Run")
        lines = "".join(f"<p>{html_text(line)}</p>" for line in self.lines)
        return f'<h1>{title}: <span class="{verdict}">{verdict}</span></h1>{definitions(self.about.rows)}{lines}'

    def _curves(self) -> list[Section]:
        """Loss, metrics and epochs, and the confusion matrix."""
        metrics = list(dict.fromkeys(name for row in self.rows for name in row.metrics))
        sections = [Section("Loss", self._loss(metrics))] if len(self.losses) else []
        for name in metrics:
            if name != LOSS:
                vertical: Vertical = "share" if name.startswith(SHARES) else "zero"
                plot = Plot(name, "epochs", {"validation": self._points(name)}, vertical)
                sections.append(Section(name.replace("_", " ").capitalize(), plot.html))
        if self.confusion is not None:
            sections.append(Section("Confusion matrix", confusion(self.confusion)))
        if self.per_epoch:
            heads = ["epoch", "passes", "loss", "rate", *(f"validation {name}" for name in metrics)]
            cells = table(heads, [_cells(row, metrics) for row in self.rows])
            sections.append(Section("Epochs", cells if self.rows else "<p>The run ended within its first epoch.</p>"))
        return sections

    def _loss(self, metrics: Sequence[str]) -> str:
        losses, unit = np.asarray(self.losses, np.float64), self.per_epoch or 1
        # Passes are counted from 0 on, and an epoch is over at its end.
        first = 0 if self.per_epoch else 1
        curves: dict[str, Points] = {"training": _shifted(thinned(losses, unit, POINTS), first)}
        if LOSS in metrics:
            curves["validation"] = self._points(LOSS)
        if len(self.expected):
            expected = np.asarray(self.expected, np.float64)
            curves["expected"] = _shifted(thinned(expected, unit, POINTS), first)
        vertical = scale_of([value for points in curves.values() for _, value in points])
        return Plot("loss", "epochs" if self.per_epoch else "passes", curves, vertical).html

    def _points(self, name: str) -> list[tuple[float, float]]:
        return [(row.epoch, row.metrics[name]) for row in self.rows if name in row.metrics]

    def _checked(self) -> list[Section]:
        """Gradient norms and deviations of the passes that were repeated in float64."""
        if not self.checks:
            return [Section("Drift", "<p>No pass was repeated in float64.</p>")] if len(self.losses) else []
        norms = [(float(row.index), row.gradient_norm) for row in self.checks if row.gradient_norm is not None]
        said = "Each of these passes was repeated in float64 from the state that the program had before it."
        losses = {"difference of the loss": [(float(row.index), row.loss_difference) for row in self.checks]}
        shares = {"largest error, in % of the bound": [(float(row.index), 100 * row.severity) for row in self.checks]}
        plots = [Plot("drift of the loss", "passes", losses, "powers")]
        plots += [Plot("largest error", "passes", shares, "powers", bound=100.0)]
        heads = ("pass", "loss off by", "gradient norm", "worst", "% of allowed", "verdict")
        body = table(heads, [_check_cells(row) for row in self.checks])
        drift = Section("Drift", f"<p>{said}</p>{''.join(plot.html for plot in plots)}{body}")
        return [*([_gradients(norms)] if norms else []), drift]


def _gradients(norms: Points) -> Section:
    said = (
        "The Euclidean norm of all gradients together, as they are summed up behind a checked pass, by the float64 "
        "repetition of that pass from the program's own state."
    )
    plot = Plot("gradient norm", "passes", {"gradient norm": norms}, scale_of([value for _, value in norms]))
    return Section("Gradient norms", f'<p class="soft">{said}</p>{plot.html}')


def _shifted(points: Points, by: int) -> Points:
    return [(x - by, y) for x, y in points]


def _cells(row: ShownEpoch, metrics: Sequence[str]) -> list[str]:
    numbers = [row.loss, row.rate, *(row.metrics.get(name, math.nan) for name in metrics)]
    return [str(row.epoch), str(row.passes), *(f"{number:.5g}" for number in numbers)]


def _check_cells(row: PassCheck) -> tuple[str, ...]:
    norm = "" if row.gradient_norm is None else f"{row.gradient_norm:.4g}"
    numbers = (f"{row.loss_difference:.2e}", norm, row.worst, f"{100 * row.severity:.2g}")
    return str(row.index), *numbers, _judged(row)


def _judged(row: PassCheck) -> str:
    if row.explained:
        return "explained by a turned decision"
    right = row.severity <= 1
    return ("magnifies rounding" if row.magnifies else "right") if right else "beyond its bounds"
