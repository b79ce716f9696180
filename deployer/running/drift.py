"""Drift: deviation of a run from the float64 run of the same case, pass by pass, as numbers, text and a picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array
from deployer.verify import verdict

COLUMNS = 48
LEAST, MOST = -9, 1
"""Powers of ten that a plot shows."""
MARKS = "_.-:=+*#"
WIDTH, HEIGHT, MARGIN = 640, 200, 44


@dataclass(frozen=True)
class Drift:
    """The difference of each pass's loss from the float64 run's.

    `largest` is that of pass `at`; `tenfold` is the number of passes in which a difference grows ten times, by a
    straight line through the logarithms, infinite where it does not grow.
    """

    largest: float
    at: int
    tenfold: float
    columns: tuple[float, ...]
    """The largest difference of each of some equal parts of the run."""

    @property
    def line(self) -> str:
        """The plot as text: a mark per part of the run, higher marks for more powers of ten."""
        return "".join(MARKS[round(_height(value) * (len(MARKS) - 1))] for value in self.columns)


def drift_of(losses: Sequence[float], expected: Sequence[float]) -> Drift | None:
    """The drift of a run; None where there is nothing to compare."""
    differences = verdict.distances(np.array(losses), np.array(expected))
    if not differences.size:
        return None
    values = np.nan_to_num(differences, nan=np.inf)
    count = min(COLUMNS, values.size)
    parts = [values[at * values.size // count : (at + 1) * values.size // count] for at in range(count)]
    return Drift(float(values.max()), int(values.argmax()), _tenfold(values), tuple(float(p.max()) for p in parts))


def _tenfold(differences: Array) -> float:
    """Passes per power of ten."""
    at = np.flatnonzero((differences > 0) & np.isfinite(differences))
    if at.size < 3:
        return math.inf
    powers = np.log10(differences[at])
    offsets = at - at.mean()
    slope = float((offsets * (powers - powers.mean())).sum() / np.square(offsets).sum())
    return 1 / slope if slope > 0 else math.inf


def _height(value: float) -> float:
    """The place of a difference between the least and the most that a plot shows, from 0 to 1."""
    if not value > 0:
        return 0.0
    power = math.log10(value) if math.isfinite(value) else MOST
    return min(max((power - LEAST) / (MOST - LEAST), 0.0), 1.0)


def drift_svg(drift: Drift, passes: int, tolerance: float) -> str:
    """The plot as a picture: passes to the right, the difference upwards in powers of ten, a line for the tolerance."""
    across = (WIDTH - MARGIN) / max(len(drift.columns), 1)
    bars, lines = [], []
    for at, value in enumerate(drift.columns):
        height = _height(value) * HEIGHT
        place = f'x="{MARGIN + at * across:.1f}" y="{HEIGHT - height:.1f}" width="{across * 0.9:.1f}"'
        first, last = at * passes // len(drift.columns), (at + 1) * passes // len(drift.columns) - 1
        title = f"passes {first} to {max(first, last)}: {value:.2e}"
        bars.append(f'<rect {place} height="{height:.1f}" fill="#4c78a8"><title>{title}</title></rect>')
    for power in range(LEAST, MOST + 1, 2):
        y = HEIGHT - _height(10.0**power) * HEIGHT
        lines.append(f'<text x="{MARGIN - 4}" y="{y + 4:.0f}" text-anchor="end">1e{power}</text>')
    level = HEIGHT - _height(tolerance) * HEIGHT
    lines.append(f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="red"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -10 {WIDTH} {HEIGHT + 34}" font-size="11" '
        f'font-family="sans-serif"><title>Difference of each pass\'s loss from the expected one</title>'
        f"{''.join(bars)}{''.join(lines)}"
        f'<text x="{MARGIN}" y="{HEIGHT + 18}">{passes} passes; the line is the tolerance, {tolerance:g}</text></svg>\n'
    )
