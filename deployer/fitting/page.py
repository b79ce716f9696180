"""The report of a run as one page of HTML that works offline: curves, memory map and step table, without scripts."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.core.plan import Plan
from deployer.core.safe_text import html_text
from deployer.fitting.history import EpochRow
from deployer.running.memory_map import memory_sections
from deployer.running.report import STEP_HEADINGS, step_cells

WIDTH, HEIGHT, MARGIN = 800, 260, 56
"""Units of a curve's picture, which is as wide as the page."""
POINTS = 400
"""A curve has at most so many points: each is the mean of as many passes as it takes."""
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")
STYLE = (
    "body{font:15px/1.5 sans-serif;margin:0 auto;max-width:1000px;padding:1em}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse}td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid #ddd}"
    ".wide{overflow-x:auto}rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000}text{font:11px sans-serif}"
)
Points = Sequence[tuple[float, float]]


def fit_page(rows: Sequence[EpochRow], losses: Array, per_epoch: int, plan: Plan, record: Mapping[str, Any]) -> str:
    """The page of a run; `record` has its verdict, what was checked, faults and notes."""
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    curves = {"training": _thinned(losses, per_epoch)}
    if "loss" in metrics:
        curves["validation"] = [(row.epoch, row.metrics["loss"]) for row in rows if "loss" in row.metrics]
    parts = [_verdict(record), "<h2>Loss</h2>", curve_svg(curves, "epochs", "loss")]
    for name in metrics:
        if name != "loss":
            points = [(row.epoch, row.metrics[name]) for row in rows if name in row.metrics]
            parts += [f"<h2>{html_text(name)}</h2>", curve_svg({"validation": points}, "epochs", name)]
    heads = ["epoch", "passes", "loss", "rate", *(f"validation {name}" for name in metrics)]
    cells = [_row_cells(row, metrics) for row in rows]
    parts += ["<h2>Epochs</h2>", _table(heads, cells), "<h2>Memory</h2>", memory_sections(plan)]
    parts += ["<h2>Steps</h2>", _table(STEP_HEADINGS, [step_cells(step) for step in plan.steps])]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<title>Run</title></head>\n<body>{body}</body></html>\n'


def _verdict(record: Mapping[str, Any]) -> str:
    lines = [str(record["checked"]), *map(str, record["faults"]), *map(str, record["notes"])]
    return f"<h1>{html_text(str(record['verdict']))}</h1>" + "".join(f"<p>{html_text(line)}</p>" for line in lines)


def _row_cells(row: EpochRow, metrics: Sequence[str]) -> list[str]:
    numbers = [row.loss, row.rate, *(row.metrics.get(name, math.nan) for name in metrics)]
    return [str(row.epoch), str(row.passes), *(f"{number:.5g}" for number in numbers)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table>{line("th", heads)}{body}</table></div>'


def _thinned(losses: Array, per_epoch: int) -> Points:
    """The mean losses of equal parts of the run, at the epochs where these end."""
    ends = np.linspace(0, losses.size, min(POINTS, losses.size) + 1).astype(int)
    values = losses.astype(np.float64)
    spans = itertools.pairwise(ends)
    return [(last / per_epoch, float(values[first:last].mean())) for first, last in spans if last > first]


def curve_svg(curves: Mapping[str, Points], across: str, label: str) -> str:
    """Curves over one another, with a legend and numbers at both axes; what is not finite is left out."""
    kept = {name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in curves.items()}
    every = [point for points in kept.values() for point in points]
    if not every:
        return f"<p>{html_text(label)}: nothing to show</p>"
    most = max(x for x, _ in every) or 1.0
    low, high = min(0.0, *(y for _, y in every)), max(y for _, y in every)
    high = high if high > low else low + 1.0

    def place(x: float, y: float) -> str:
        return f"{MARGIN + (WIDTH - MARGIN - 8) * x / most:.1f},{HEIGHT - HEIGHT * (y - low) / (high - low):.1f}"

    shapes = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = HEIGHT - HEIGHT * share
        ends = f'x1="{MARGIN}" x2="{WIDTH}" y1="{at:.0f}" y2="{at:.0f}"'
        shapes.append(f'<line {ends} stroke="#ddd"/><text x="{MARGIN - 4}" y="{at + 4:.0f}" text-anchor="end">')
        shapes.append(f"{low + (high - low) * share:.4g}</text>")
    for number, (name, points) in enumerate(kept.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(place(x, y) for x, y in points)
        marks = [place(x, y).split(",") for x, y in points] if len(points) < POINTS // 4 else []
        shapes.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        shapes += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in marks]
        where = f'x="{MARGIN + 90 * number}" y="{HEIGHT + 34}" fill="{colour}"'
        shapes.append(f"<text {where}>&#9632; {html_text(name)}</text>")
    for share in (0.0, 0.5, 1.0):
        x = MARGIN + (WIDTH - MARGIN - 8) * share
        anchor = "start" if not share else "end" if share == 1 else "middle"
        shapes.append(f'<text x="{x:.0f}" y="{HEIGHT + 16}" text-anchor="{anchor}">{most * share:.4g}</text>')
    title = f"<title>{html_text(f'{label} over {across}')}</title>"
    box = f'viewBox="0 -10 {WIDTH} {HEIGHT + 52}" width="{WIDTH}" role="img"'
    return f"<svg {box}>{title}{''.join(shapes)}</svg>"
