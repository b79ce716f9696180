"""The report of a run as one page of HTML that works offline: pictures and tables, without scripts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.core.safe_text import html_text
from deployer.fitting.history import EpochRow
from deployer.fitting.metrics import LOSS
from deployer.fitting.pages.curves import Plot, thinned
from deployer.fitting.pages.timeline import timeline_section
from deployer.running.memory_map import memory_sections
from deployer.running.report import STEP_HEADINGS, step_cells
from deployer.verify.checks import PassCheck

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
    shares = {"largest error, in % of what is allowed": [(float(row.index), 100 * row.severity) for row in checks]}
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
