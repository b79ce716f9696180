"""Curves as pictures: axes with round numbers, a legend, text of one size on every screen.

A picture has no view box: places across are shares of its width, and places down are pixels. So text stays as it is
where the picture is narrow. Curves lie in a picture within, which stretches.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deployer.core.safe_text import html_text
from deployer.reports.html import COLOURS, key

HEIGHT, TOP, FOOT, SCALE = 220, 10, 24, 56
"""Pixels of a picture: the area of the curves, the room above and below it, the width of the numbers beside it."""
ACROSS = 1000
"""Units of a curve's width."""
MARKED = 60
"""A curve of fewer points has a mark at each."""
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
"""First digits of round numbers: multiples of one of them are the numbers at an axis."""
DECADES = 5
"""An axis of powers has about so many numbers."""
WIDE_RANGE = 300.0
"""Positive values whose largest is so many times the smallest are drawn by powers."""
Points = Sequence[tuple[float, float]]
Vertical = Literal["zero", "free", "share", "powers"]


@dataclass(frozen=True)
class Plot:
    """Curves by name over `across`.

    The vertical axis begins at 0 ("zero"), is as the values are ("free"), goes from 0 to 1 ("share"), or is logarithmic
    ("powers"); the last has no place for 0, so such points are left out and counted. So is what is not finite.
    """

    label: str
    across: str
    curves: Mapping[str, Points]
    vertical: Vertical = "zero"
    bound: float | None = None

    @property
    def html(self) -> str:
        """The legend and the picture."""
        kept = {name: [p for p in points if self._shown(p[1])] for name, points in self.curves.items()}
        missing = sum(len(points) for points in self.curves.values()) - sum(map(len, kept.values()))
        note = f'<p class="soft">{missing} values are not shown: {self._reason}</p>' if missing else ""
        every = [point for points in kept.values() for point in points]
        if not every:
            return f"<p>{html_text(self.label)}: nothing to show</p>{note}"
        axis = self._axis([y for _, y in every])
        across = whole(max(x for x, _ in every) or 1.0)
        shapes = [*_numbers_across(across), *_lines(axis)]
        if self.bound is not None:
            y = down(axis.place(self.bound))
            shapes.append(f'<line class="limit" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        for number, points in enumerate(kept.values()):
            shapes += _curve([(across.place(x), axis.place(y)) for x, y in points], points, number % COLOURS)
        title = f"{self.label} over {self.across}"
        return f"{self._legend(list(kept))}{framed(title, upright(axis), ''.join(shapes))}{note}"

    def _shown(self, value: float) -> bool:
        return math.isfinite(value) and (self.vertical != "powers" or value > 0)

    @property
    def _reason(self) -> str:
        return "they are not finite, or 0 on an axis of powers" if self.vertical == "powers" else "they are not finite"

    def _axis(self, values: Sequence[float]) -> "PlotAxis":
        wanted = [*values, *([] if self.bound is None else [self.bound])]
        if self.vertical == "powers":
            return powers(min(wanted), max(wanted))
        if self.vertical == "share":
            return linear(0.0, 1.0, True)
        return linear(min(0.0, *wanted) if self.vertical == "zero" else min(wanted), max(wanted), True)

    def _legend(self, names: Sequence[str]) -> str:
        keys = [key(f"c{number % COLOURS}", name) for number, name in enumerate(names)]
        keys += [] if self.bound is None else [key("bad", f"{self.bound:g}: the bound")]
        return f'<p class="key">{" ".join(keys)} <span class="soft">over {html_text(self.across)}</span></p>'


@dataclass(frozen=True)
class PlotAxis:
    """An axis from a number to another, with numbers at some places; of powers of ten if `powers`."""

    low: float
    high: float
    numbers: Sequence[tuple[float, str]]
    powers: bool = False

    def share(self, number: float) -> float:
        """The place of what stands at the axis, from 0 to 1."""
        return (number - self.low) / (self.high - self.low)

    def place(self, value: float) -> float:
        """The place of a value; one on an axis of powers is positive."""
        return self.share(math.log10(value) if self.powers else value)


def linear(low: float, high: float, is_round: bool) -> PlotAxis:
    """An axis whose numbers are multiples of a round one; where it `is_round` it ends at such, too."""
    high = high if high > low else low + (abs(low) or 1.0)
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(first * power for first in ROUND if first * power * 5 >= (high - low) * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    numbers = [(i * step, f"{i * step:.4g}") for i in range(first, last + 1)]
    if is_round:
        return PlotAxis(first * step, last * step, numbers)
    return PlotAxis(low, high, [(number, text) for number, text in numbers if low <= number <= high])


def whole(high: float) -> PlotAxis:
    """An axis of counts from 0 on: its numbers are whole, unless it ends before 2."""
    if high < 2:
        return linear(0.0, high, False)
    step = next(first * 10**power for power in range(16) for first in (1, 2, 5) if first * 10**power * 6 >= high)
    return PlotAxis(0.0, high, [(number, str(number)) for number in range(0, int(high) + 1, step)])


def powers(least: float, most: float) -> PlotAxis:
    """An axis of powers of ten around positive values."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    high = max(high, low + 1)
    step = max(math.ceil((high - low) / DECADES), 1)
    high = low + step * math.ceil((high - low) / step)
    numbers = [(power, f"{10.0**power:g}" if -4 < power < 5 else f"1e{power}") for power in range(low, high + 1, step)]
    return PlotAxis(low, high, numbers, True)


def down(share: float, height: float = HEIGHT) -> float:
    """The pixels from the top of a picture to a place at its upright axis."""
    return TOP + height - height * share


def upright(axis: PlotAxis, height: float = HEIGHT) -> str:
    """The numbers beside a picture."""
    places = [(down(axis.share(number), height), text) for number, text in axis.numbers]
    return "".join(
        f'<text x="{SCALE}" y="{y + 4:.1f}" text-anchor="end">{html_text(text)}</text>' for y, text in places
    )


def framed(title: str, beside: str, shapes: str, height: float = HEIGHT, kind: str = "") -> str:
    """A picture with numbers or names beside it, and room for numbers below."""
    tall = height + TOP + FOOT
    left = f'<svg class="scale" width="100%" height="{tall:g}" aria-hidden="true">{beside}</svg>'
    area = (
        f'<svg class="open" width="100%" height="{tall:g}" role="img"><title>{html_text(title)}</title>{shapes}</svg>'
    )
    return f'<div class="frame {kind}">{left}{area}</div>'


def _lines(axis: PlotAxis) -> list[str]:
    places = [down(axis.share(number)) for number, _ in axis.numbers]
    return [f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>' for y in places]


def _numbers_across(axis: PlotAxis) -> list[str]:
    return [number_below(axis.share(number), text) for number, text in axis.numbers]


def number_below(share: float, text: str, height: float = HEIGHT) -> str:
    """A number below a picture; one at its end stays within it."""
    anchor = "end" if share > 0.97 else "middle" if share > 0.03 else "start"
    place = f'x="{100 * share:.2f}%" y="{TOP + height + 18:g}" text-anchor="{anchor}"'
    return f'<text class="axis" {place}>{html_text(text)}</text>'


def _curve(places: Points, values: Points, colour: int) -> list[str]:
    line = " ".join(f"{ACROSS * x:.1f},{down(y):.1f}" for x, y in places)
    box = f'viewBox="0 0 {ACROSS} {HEIGHT + TOP}" preserveAspectRatio="none" width="100%" height="{HEIGHT + TOP}"'
    marks = [
        f'<circle class="c{colour}" cx="{100 * x:.2f}%" cy="{down(y):.1f}" r="3">'
        f"<title>{a:.6g}: {b:.6g}</title></circle>"
        for (x, y), (a, b) in zip(places, values, strict=True)
    ]
    shape = f'<svg class="open" {box}><polyline class="line c{colour}" points="{line}"/></svg>'
    return [shape, *(marks if len(marks) < MARKED else [])]


def scale_of(values: Sequence[float]) -> Vertical:
    """The vertical axis of a loss: of powers where its values are positive and far apart, else from 0."""
    usable = [value for value in values if math.isfinite(value)]
    return "powers" if usable and min(usable) > 0 and max(usable) > WIDE_RANGE * min(usable) else "zero"


def thinned(values: np.ndarray, per_unit: int, most: int) -> Points:
    """The means of at most so many equal parts of a series, each at its end in units of so many values."""
    ends = np.linspace(0, values.size, min(most, values.size) + 1).astype(int)
    spans = itertools.pairwise(ends)
    wide = values.astype(np.float64)
    return [(last / per_unit, float(wide[first:last].mean())) for first, last in spans if last > first]
