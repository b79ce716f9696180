"""Curves as a picture of its own, for a notebook or a file: SVG without scripts, fonts and styles of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.core.errors import OptionProblem
from deployer.core.safe_text import html_text
from deployer.reports.plot import PlotAxis, linear

WIDTH, HEIGHT, LEFT, TOP, FOOT, RIGHT = 640, 240, 56, 30, 40, 14
"""Pixels of a picture, and of the room around its curves."""
COLOURS = ("#3b6ea8", "#d9730d", "#3f8f46", "#9b5fa5", "#9aa3ad")
INK, GRID, LIMIT = "#59636e", "#d9dee3", "#c1121f"


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves by name over `across`, with a dashed line at each limit by name; a notebook shows the picture.

    Values of a curve stand at 1, 2, 3, ... unless `places` gives their places; NaN leaves a gap.
    """

    curves: Mapping[str, Sequence[float]]
    across: str = "epoch"
    limits: Mapping[str, float] | None = None
    places: Sequence[float] | None = None

    def save(self, path: Path | str) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self._repr_svg_())

    def _repr_svg_(self) -> str:
        """The picture."""
        curves = {name: np.asarray(values, np.float64) for name, values in self.curves.items()}
        limits = dict(self.limits or {})
        every = np.concatenate([*curves.values(), [*limits.values()]])
        every = every[np.isfinite(every)]
        if not every.size:
            raise OptionProblem("a chart has no number to show", [("curves", ", ".join(curves) or "none")], "values")
        longest = max(map(len, curves.values()), default=0)
        places = np.arange(1, longest + 1) if self.places is None else np.asarray(self.places, np.float64)
        if len(places) < longest:
            raise OptionProblem(f"a chart has {len(places)} places for {longest} values", hint="a place for each value")
        across = linear(float(places.min(initial=0)), float(places.max(initial=1)), False)
        axis = linear(min(0.0, float(every.min())), float(every.max()), True)
        shapes = [*_grid(axis), *_numbers(across), _text(WIDTH / 2, HEIGHT - 6, self.across, "middle")]
        for number, values in enumerate(curves.values()):
            shapes += _lines(values, places, across, axis, COLOURS[number % len(COLOURS)])
        shapes += [_line(_down(axis, limit), LIMIT, ' stroke-dasharray="6 4"') for limit in limits.values()]
        names = [*zip(curves, COLOURS * (1 + len(curves) // len(COLOURS)), strict=False)]
        shapes += _legend([*names, *((name, LIMIT) for name in limits)])
        size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}"'
        body = "\n".join(shapes)
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{_paper()}\n{body}\n</svg>\n'


def _paper() -> str:
    return f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'


def _down(axis: PlotAxis, value: float) -> float:
    return TOP + (HEIGHT - TOP - FOOT) * (1 - axis.place(value))


def _right(axis: PlotAxis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * axis.place(value)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html_text(text)}</text>'


def _line(y: float, colour: str, more: str = "") -> str:
    return f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"{more}/>'


def _grid(axis: PlotAxis) -> list[str]:
    """Horizontal lines with their numbers."""
    lines = [_line(_down(axis, number), GRID) for number, _ in axis.numbers]
    return lines + [_text(LEFT - 6, _down(axis, number) + 4, text, "end") for number, text in axis.numbers]


def _numbers(axis: PlotAxis) -> list[str]:
    return [_text(_right(axis, number), HEIGHT - FOOT + 16, text, "middle") for number, text in axis.numbers]


def _lines(values: np.ndarray, places: np.ndarray, across: PlotAxis, axis: PlotAxis, colour: str) -> list[str]:
    """A curve, in pieces where numbers are missing."""
    known = np.flatnonzero(np.isfinite(values))
    pieces = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    drawn = []
    for piece in pieces:
        points = " ".join(f"{_right(across, places[i]):.1f},{_down(axis, values[i]):.1f}" for i in piece)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
    return drawn


def _legend(names: Sequence[tuple[str, str]]) -> list[str]:
    """Names in the colours of their curves, in a line."""
    shapes, x = [], float(LEFT)
    for name, colour in names:
        shapes.append(f'<rect x="{x:.0f}" y="9" width="10" height="10" fill="{colour}"/>')
        shapes.append(_text(x + 15, 18, name, "start"))
        x += 32 + 6.6 * len(name)
    return shapes
