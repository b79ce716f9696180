"""The page about a run: curves, epochs and the timeline of a pass."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.core.plan import Plan, PlanStep
from deployer.core.safe_text import html_text
from deployer.fitting.history import LOSS, EpochRow
from deployer.running.memory_map import memory_sections
from deployer.running.report import STEP_HEADINGS, step_cells
from deployer.verify.checks import PassCheck

# Curves as pictures within a page of HTML: axes with round numbers, a legend, no scripts.

CURVE_WIDTH, CURVE_HEIGHT, CURVE_MARGIN, FOOT = 960, 260, 76, 34
"""Units of a picture, as wide as the page; the margin has the numbers of the upright axis, the foot those below."""
CURVE_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")
BOUND = "#c00"
MARKED = 100
"""A curve of fewer points has a mark at each."""
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""First digits of round numbers: multiples of one of them are the numbers at an axis."""
DECADES = 5
"""An axis of powers has about so many numbers."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Plot:
    """Curves by name over `across`; `powers` makes the vertical axis logarithmic, with zeros at the bottom.

    `label` says what is shown. The upright axis has 0 where `from_zero`, and a line at `bound`, if there is one. What
    is not finite is left out.
    """

    label: str
    across: str
    curves: Mapping[str, Points]
    from_zero: bool = True
    powers: bool = False
    bound: float | None = None

    @property
    def svg(self) -> str:
        """The legend and the picture, as HTML."""
        kept = {name: [p for p in points if math.isfinite(p[1])] for name, points in self.curves.items()}
        every = [point for points in kept.values() for point in points]
        if not every:
            return f"<p>{html_text(self.label)}: nothing to show</p>"
        axis = self._axis([y for _, y in every])
        across = _linear(0.0, max(x for x, _ in every) or 1.0, False)
        shapes = [*_upright(axis), *_level(across)]
        if self.bound is not None:
            at = CURVE_HEIGHT - CURVE_HEIGHT * axis.place(self.bound)
            ends = f'x1="{CURVE_MARGIN}" x2="{CURVE_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"'
            shapes.append(f'<line {ends} stroke="{BOUND}" stroke-dasharray="6 3"/>')
        for colour, points in zip(itertools.cycle(CURVE_COLOURS), kept.values(), strict=False):
            shapes += _curve([(across.place(x), axis.place(y)) for x, y in points], colour)
        title = f"<title>{html_text(f'{self.label} over {self.across}')}</title>"
        box = f'class="plot" viewBox="0 -14 {CURVE_WIDTH + 12} {CURVE_HEIGHT + 14 + FOOT}" role="img"'
        return f"{self._legend(list(kept))}<svg {box}>{title}{''.join(shapes)}</svg>"

    def _axis(self, values: Sequence[float]) -> "_Axis":
        wanted = [*values, *([] if self.bound is None else [self.bound])]
        if not self.powers:
            low = min(0.0, *wanted) if self.from_zero else min(wanted)
            return _linear(low, max(wanted), True)
        positive = [value for value in wanted if value > 0] or [1.0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        step = max(math.ceil((high - low) / DECADES), 1)
        low -= step  # zero lies below all powers
        high = low + step * math.ceil((high - low) / step)
        return _Axis(
            low, high, [(power, f"1e{power}" if power > low else "0") for power in range(low, high + 1, step)], True
        )

    def _legend(self, names: Sequence[str]) -> str:
        keys = [_key(colour, name) for colour, name in zip(itertools.cycle(CURVE_COLOURS), names, strict=False)]
        keys += [] if self.bound is None else [_key(BOUND, f"{self.bound:g}: the bound")]
        return f'<p class="key">{" ".join(keys)} over {html_text(self.across)}</p>'


@dataclass(frozen=True)
class _Axis:
    """An axis from a number to another, with numbers at some places; of powers of ten if `powers`."""

    low: float
    high: float
    numbers: Sequence[tuple[float, str]]
    powers: bool = False

    def share(self, number: float) -> float:
        """The place of what stands at the axis, from 0 to 1."""
        return (number - self.low) / (self.high - self.low)

    def place(self, value: float) -> float:
        """The place of a value."""
        if not self.powers:
            return self.share(value)
        return max(self.share(math.log10(value)), 0.0) if value > 0 else 0.0


def _linear(low: float, high: float, is_round: bool) -> _Axis:
    """An axis whose numbers are multiples of a round one; where it `is_round` it ends at such, too."""
    high = high if high > low else low + (abs(low) or 1.0)
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(first * power for first in ROUND if first * power * 5 >= high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    numbers = [(i * step, f"{i * step:.4g}") for i in range(first, last + 1)]
    if is_round:
        return _Axis(first * step, last * step, numbers)
    return _Axis(low, high, [(number, text) for number, text in numbers if low <= number <= high])


def _upright(axis: _Axis) -> list[str]:
    shapes = []
    for number, text in axis.numbers:
        at = CURVE_HEIGHT - CURVE_HEIGHT * axis.share(number)
        shapes.append(f'<line x1="{CURVE_MARGIN}" x2="{CURVE_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        shapes.append(f'<text x="{CURVE_MARGIN - 6}" y="{at + 5:.1f}" text-anchor="end">{text}</text>')
    return shapes


def _level(axis: _Axis) -> list[str]:
    places = [(CURVE_MARGIN + (CURVE_WIDTH - CURVE_MARGIN) * axis.share(number), text) for number, text in axis.numbers]
    return [f'<text x="{x:.1f}" y="{CURVE_HEIGHT + 24}" text-anchor="middle">{text}</text>' for x, text in places]


def _curve(places: Points, colour: str) -> list[str]:
    drawn = [
        (f"{CURVE_MARGIN + (CURVE_WIDTH - CURVE_MARGIN) * x:.1f}", f"{CURVE_HEIGHT - CURVE_HEIGHT * y:.1f}")
        for x, y in places
    ]
    line = " ".join(",".join(point) for point in drawn)
    marks = [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in drawn] if len(drawn) < MARKED else []
    return [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>', *marks]


def _key(colour: str, name: str) -> str:
    return f'<span><b style="color:{colour}">&#9632;</b> {html_text(name)}</span>'


def legend(colours: Mapping[str, str]) -> str:
    """A line of what colours stand for."""
    return f'<p class="key">{" ".join(_key(colour, name) for name, colour in colours.items())}</p>'


def thinned(values: np.ndarray, per_unit: int, most: int) -> Points:
    """The means of at most so many equal parts of a series, each at its end in units of so many values."""
    ends = np.linspace(0, values.size, min(most, values.size) + 1).astype(int)
    spans = itertools.pairwise(ends)
    wide = values.astype(np.float64)
    return [(last / per_unit, float(wide[first:last].mean())) for first, last in spans if last > first]


# The timeline of a pass and its update by the cost model, as a picture: a row for each step, cycles to the right.

TIME_WIDTH, TIME_MARGIN, TIME_HEIGHT, HEAD = 1000, 190, 620, 18
"""Units of the picture; the margin has the operators' names."""
ROW, NAMED = (2.0, 15.0), 9.0
"""The least and the most that a row is high, and from which height on it has its operator's name."""
TIME_COLOURS = {
    "kernels": "#4c78a8",
    "waits for ingress": "#f58518",
    "waits for egress": "#54a24b",
    "everything else": "#bbb",
}


def timeline_section(plan: Plan) -> str:
    """Render the timeline: a summary, a legend, and the picture."""
    parts = [f"{plan.cycles(graph)} cycles of {graph}" for graph in plan.graphs]
    share = sum(sum(step.tile_cycles) for step in plan.steps) / max(sum(step.cycles for step in plan.steps), 1)
    said = f"{', '.join(parts)}, by the cost model of {plan.options.target}; kernels have {100 * share:.0f} % of them"
    return f'<p>{html_text(said)}</p>{legend(TIME_COLOURS)}<div class="wide">{_picture(plan)}</div>'


def _picture(plan: Plan) -> str:
    ends = list(accumulate(step.cycles for step in plan.steps))
    total, row = max(ends[-1] if ends else 1, 1), min(max(TIME_HEIGHT / max(len(ends), 1), ROW[0]), ROW[1])
    scale = (TIME_WIDTH - TIME_MARGIN) / total
    shapes = []
    for number, (step, end) in enumerate(zip(plan.steps, ends, strict=True)):
        top = HEAD + number * row
        label = html_text(f"{step.index} {step.op_label}: {step.cycles} cycles, {step.tiles} tiles")
        shapes.append(
            f"<g><title>{label}</title>{_bars(step, TIME_MARGIN + (end - step.cycles) * scale, top, row, scale)}</g>"
        )
        if row >= NAMED:
            place = f'x="{TIME_MARGIN - 6}" y="{top + row - 3.5:.1f}" text-anchor="end"'
            shapes.append(f"<text {place}>{html_text(step.op_label)}</text>")
        if number and step.graph != plan.steps[number - 1].graph:
            line = f'x1="0" x2="{TIME_WIDTH}" y1="{top:.1f}" y2="{top:.1f}"'
            shapes.append(f'<line {line} stroke="#888" stroke-dasharray="4 3"/>')
    box = f'class="steps" viewBox="0 0 {TIME_WIDTH + 4} {HEAD + len(ends) * row + 4:.0f}" role="img"'
    heads = [
        f'<text x="{TIME_MARGIN}" y="12">0</text>',
        f'<text x="{TIME_WIDTH}" y="12" text-anchor="end">{total}</text>',
    ]
    return f"<svg {box}><title>Timeline of a pass</title>{''.join([*heads, *shapes])}</svg>"


def _bars(step: PlanStep, left: float, top: float, row: float, scale: float) -> str:
    """The step's share of each kind of cycles, side by side: how they alternate is not shown."""
    known = [sum(step.tile_cycles), sum(step.timeline.ingress_wait), sum(step.timeline.egress_wait)]
    bars = []
    for cycles, colour in zip([*known, max(step.cycles - sum(known), 0)], TIME_COLOURS.values(), strict=True):
        size = f'width="{max(cycles * scale, 0.3):.2f}" height="{row:.2f}"'
        bars += [f'<rect x="{left:.2f}" y="{top:.2f}" {size} fill="{colour}"/>'] if cycles else []
        left += cycles * scale
    return "".join(bars)


# The report of a run as one page of HTML that works offline: pictures and tables, without scripts.

POINTS = 400
"""A curve has at most so many points: each is the mean of as many passes as it takes."""
STYLE = (
    "body{font:15px/1.5 sans-serif;margin:0 auto;max-width:1000px;padding:1em;overflow-wrap:anywhere}"
    "h2{margin:1.6em 0 .3em}p{margin:.4em 0}.key span{margin-right:1em;white-space:nowrap}svg{display:block}"
    ".passed{color:#2e7d32}.failed{color:#c00}.explained,.unchecked{color:#b26a00}"
    "table{border-collapse:collapse;font-size:14px;white-space:nowrap}"
    "td,th{padding:.15em .7em;text-align:right;border-bottom:1px solid #ddd}.left{text-align:left}"
    ".wide{overflow-x:auto}.wide svg{min-width:900px}svg.plot{width:100%;height:auto}"
    "rect{stroke:#fff;stroke-width:.5}.steps rect{stroke:none}rect:hover,g:hover rect{stroke:#000}"
    "text{font:12px sans-serif}.steps text{font-size:11px}.plot text{font-size:13px}"
    "@media(max-width:700px){.plot text{font-size:26px}.plot polyline{stroke-width:4}.plot circle{r:6px}}"
)
"""On a narrow screen a picture of curves is small, so that its text is larger in its own units; others are scrolled."""
TEXTS = ("operator", "tile of whole", "buffering", "worst", "verdict")
"""Columns of words."""


def fit_page(
    rows: Sequence[EpochRow],
    losses: Array,
    per_epoch: int,
    plan: Plan,
    checks: Sequence[PassCheck],
    record: Mapping[str, Any],
) -> str:
    """The page of a run; `record` has its verdict, what was checked, faults and notes, `checks` the passes checked."""
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    curves = {"training": thinned(losses, per_epoch, POINTS)}
    if LOSS in metrics:
        curves["validation"] = _points(rows, LOSS)
    parts = [_verdict(record), _heading("Loss"), Plot("loss", "epochs", curves).svg]
    for name in metrics:
        if name != LOSS:
            title = name.replace("_", " ").capitalize()
            plot = Plot(name, "epochs", {"validation": _points(rows, name)}, from_zero=False)
            parts += [_heading(title), plot.svg]
    heads = ["epoch", "passes", "loss", "rate", *(f"validation {name}" for name in metrics)]
    table = _table(heads, [_row_cells(row, metrics) for row in rows])
    parts += [_heading("Epochs"), table if rows else "<p>The run ended within its first epoch.</p>"]
    parts += [_heading("Drift"), *_drift(checks), _heading("Timeline of a pass"), timeline_section(plan)]
    parts += [_heading("Memory"), f'<div class="wide">{memory_sections(plan)}</div>']
    parts += [_heading("Steps"), _table(STEP_HEADINGS, [step_cells(step) for step in plan.steps])]
    scale = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f'<meta charset="utf-8">{scale}<style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<title>Run</title></head>\n<body>{body}</body></html>\n'


def _heading(text: str) -> str:
    return f"<h2>{html_text(text)}</h2>"


def _verdict(record: Mapping[str, Any]) -> str:
    lines = [str(record["checked"]), *map(str, record["faults"]), *map(str, record["notes"])]
    verdict = html_text(str(record["verdict"]))
    return f'<h1 class="{verdict}">{verdict}</h1>' + "".join(f"<p>{html_text(line)}</p>" for line in lines)


def _points(rows: Sequence[EpochRow], name: str) -> list[tuple[float, float]]:
    return [(row.epoch, row.metrics[name]) for row in rows if name in row.metrics]


def _row_cells(row: EpochRow, metrics: Sequence[str]) -> list[str]:
    numbers = [row.loss, row.rate, *(row.metrics.get(name, math.nan) for name in metrics)]
    return [str(row.epoch), str(row.passes), *(f"{number:.5g}" for number in numbers)]


def _drift(checks: Sequence[PassCheck]) -> list[str]:
    """Plot each checked pass's deviation from its float64 reference: loss, and largest error per bound."""
    if not checks:
        return ["<p>No pass was repeated in float64.</p>"]
    said = "Each of these passes was repeated in float64 from the state that the program had before it."
    losses = {"difference of the loss": [(float(row.index), row.loss_difference) for row in checks]}
    shares = {"largest error, in % of the bound": [(float(row.index), 100 * row.severity) for row in checks]}
    rows = [
        (str(row.index), f"{row.loss_difference:.2e}", row.worst, f"{100 * row.severity:.2g}", _judged(row))
        for row in checks
    ]
    plots = [Plot("drift of the loss", "passes", losses, powers=True)]
    plots += [Plot("largest error", "passes", shares, powers=True, bound=100.0)]
    heads = ("pass", "loss off by", "worst", "% of allowed", "verdict")
    return [f"<p>{said}</p>", *(plot.svg for plot in plots), _table(heads, rows)]


def _judged(row: PassCheck) -> str:
    if row.explained:
        return "explained by a turned decision"
    right = row.severity <= 1
    return ("magnifies rounding" if row.magnifies else "right") if right else "beyond its bounds"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    kinds = [' class="left"' if head in TEXTS else "" for head in heads]

    def line(tag: str, cells: Sequence[str]) -> str:
        each = (f"<{tag}{kind}>{html_text(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return "<tr>" + "".join(each) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table>{line("th", heads)}{body}</table></div>'
