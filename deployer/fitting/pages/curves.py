"""Curves as pictures within a page of HTML: axes with round numbers, a legend, no scripts."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.safe_text import html_text

WIDTH, HEIGHT, MARGIN, FOOT = 960, 260, 76, 34
"""Units of a picture, as wide as the page; the margin has the numbers of the upright axis, the foot those below."""
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")
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
            at = HEIGHT - HEIGHT * axis.place(self.bound)
            ends = f'x1="{MARGIN}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}"'
            shapes.append(f'<line {ends} stroke="{BOUND}" stroke-dasharray="6 3"/>')
        for colour, points in zip(itertools.cycle(COLOURS), kept.values(), strict=False):
            shapes += _curve([(across.place(x), axis.place(y)) for x, y in points], colour)
        title = f"<title>{html_text(f'{self.label} over {self.across}')}</title>"
        box = f'class="plot" viewBox="0 -14 {WIDTH + 12} {HEIGHT + 14 + FOOT}" role="img"'
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
        keys = [_key(colour, name) for colour, name in zip(itertools.cycle(COLOURS), names, strict=False)]
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
        at = HEIGHT - HEIGHT * axis.share(number)
        shapes.append(f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        shapes.append(f'<text x="{MARGIN - 6}" y="{at + 5:.1f}" text-anchor="end">{text}</text>')
    return shapes


def _level(axis: _Axis) -> list[str]:
    places = [(MARGIN + (WIDTH - MARGIN) * axis.share(number), text) for number, text in axis.numbers]
    return [f'<text x="{x:.1f}" y="{HEIGHT + 24}" text-anchor="middle">{text}</text>' for x, text in places]


def _curve(places: Points, colour: str) -> list[str]:
    drawn = [(f"{MARGIN + (WIDTH - MARGIN) * x:.1f}", f"{HEIGHT - HEIGHT * y:.1f}") for x, y in places]
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
