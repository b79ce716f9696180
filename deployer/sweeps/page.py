"""The page of a sweep: its runs as lines over parallel axes, the goals against each other, and the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from deployer.core.safe_text import html_text
from deployer.reports.html import Section, count_text, definitions, legend, page, table
from deployer.reports.plot import PlotAxis, linear, powers
from deployer.sweeps.samplers import Goal
from deployer.sweeps.sweep import SweptRow
from deployer.sweeps.table import best_rows, columns_of

WIDTH, HEIGHT, TOP, FOOT, SIDE = 1000, 320, 30, 36, 70
"""Pixels of a picture, and of the room around its axes."""
MOST_DECADES = 30.0
"""An axis whose positive numbers differ by a larger factor than this has powers of ten."""
MOST_ROWS = 500
"""The table of the page has so many runs at most; that of the file has all."""


@dataclass(frozen=True)
class _Axis:
    """An axis of the picture: its name, the place of a row at it, None where it has none, and its labels."""

    name: str
    places: Sequence[float | None]
    labels: Sequence[tuple[float, str]]


def sweep_page(title: str, facts: Sequence[tuple[str, str]], rows: Sequence[SweptRow], goals: Sequence[Goal]) -> str:
    """The page; the runs that no other one beats in the goals are coloured."""
    best = best_rows(rows, goals)
    sections = []
    lines = [_axis_of_values(name, rows) for name in dict.fromkeys(n for row in rows for n in row.run.values)]
    lines += [axis for axis in (_axis_of_numbers(c, rows) for c in _varying(rows, goals)) if axis]
    if len(lines) > 1:
        sections.append(Section("Runs", _key(goals) + _parallel(lines, rows, best)))
    for first, second in combinations(dict.fromkeys(column for column, _ in goals), 2):
        sections.append(Section(f"{first} and {second}", _key(goals) + _scatter(first, second, rows, best)))
    shown = best + [row for row in rows if row not in best]
    sections.append(Section("Table", _table(shown[:MOST_ROWS], best)))
    top = f"<h1>{html_text(title)}</h1>{definitions(facts)}"
    return page(title, top, sections)


def _varying(rows: Sequence[SweptRow], goals: Sequence[Goal]) -> list[str]:
    """The goals, or without one the columns whose numbers differ from run to run."""
    if goals:
        return list(dict.fromkeys(column for column, _ in goals))
    return [c for c in columns_of(rows) if len({row.result.numbers.get(c) for row in rows} - {None}) > 1]


def _key(goals: Sequence[Goal]) -> str:
    if not goals:
        return ""
    return legend({"c1": f"best: {', '.join(f'{way} {column}' for column, way in goals)}", "c4": "the others"})


def _axis_of_values(name: str, rows: Sequence[SweptRow]) -> _Axis:
    """Numbers in proportion, other values in the order in which they come."""
    values = [row.run.values.get(name) for row in rows]
    known = [v for v in dict.fromkeys(values) if v is not None]
    numbers = [_float(v) for v in known]
    if None not in numbers and len(known) > 1:
        scale = _scale([n for n in numbers if n is not None])
        places = [None if v is None else scale.place(_float(v) or 0.0) for v in values]
        few = len(known) <= 8
        labels = [(scale.place(_float(v) or 0.0), v) for v in known] if few else _labels(scale)
        return _Axis(name, places, labels)
    at = {v: i / max(len(known) - 1, 1) for i, v in enumerate(known)}
    return _Axis(name, [None if v is None else at[v] for v in values], [(at[v], v) for v in known])


def _axis_of_numbers(column: str, rows: Sequence[SweptRow]) -> _Axis | None:
    """The numbers of a column; None where no run has one."""
    numbers = [row.result.numbers.get(column) for row in rows]
    known = [n for n in numbers if n is not None]
    if not known:
        return None
    scale = _scale(known)
    return _Axis(column, [None if n is None else scale.place(n) for n in numbers], _labels(scale))


def _scale(numbers: Sequence[float]) -> PlotAxis:
    low, high = min(numbers), max(numbers)
    return powers(low, high) if low > 0 and high / low > MOST_DECADES else linear(low, high, True)


def _labels(scale: PlotAxis) -> list[tuple[float, str]]:
    return [
        (scale.share(n), count_text(n) if not scale.powers and abs(n) >= 1e4 else text) for n, text in scale.numbers
    ]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _down(place: float) -> float:
    return TOP + (HEIGHT - TOP - FOOT) * (1 - place)


def _picture(title: str, shapes: Sequence[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img"'
    return f"<svg {size}><title>{html_text(title)}</title>{''.join(shapes)}</svg>"


def _words(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html_text(text)}</text>'


def _parallel(axes: Sequence[_Axis], rows: Sequence[SweptRow], best: Sequence[SweptRow]) -> str:
    """A line for each run that passed; the best ones lie on top."""
    across = [SIDE + (WIDTH - 2 * SIDE) * i / (len(axes) - 1) for i in range(len(axes))]
    passed = [i for i, row in enumerate(rows) if row.result.outcome == "passed"]
    shapes = []
    for i in sorted(passed, key=lambda i: (rows[i] in best, i)):
        ends = [(x, axis.places[i]) for x, axis in zip(across, axes, strict=True)]
        points = " ".join(f"{x:.1f},{_down(place):.1f}" for x, place in ends if place is not None)
        colour, more = ("c1", "") if rows[i] in best else ("c4", ";opacity:.45")
        shape = f'<polyline class="line" style="stroke:var(--{colour}){more}" points="{points}">'
        shapes.append(f"{shape}<title>{html_text(_spoken(rows[i]))}</title></polyline>")
    for x, axis in zip(across, axes, strict=True):
        shapes.append(f'<line class="roof" x1="{x:.1f}" x2="{x:.1f}" y1="{_down(0):.1f}" y2="{_down(1):.1f}"/>')
        shapes.append(_words(x, HEIGHT - 8, axis.name))
        shapes += [_words(x - 6, _down(place) + 4, text, "end") for place, text in axis.labels]
    return _picture(f"{len(passed)} runs", shapes)


def _scatter(first: str, second: str, rows: Sequence[SweptRow], best: Sequence[SweptRow]) -> str:
    """A point for each run that has both numbers."""
    found = [row for row in rows if first in row.result.numbers and second in row.result.numbers]
    if not found:
        return "<p>No run has both numbers.</p>"
    x, y = (_scale([row.result.numbers[name] for row in found]) for name in (first, second))

    def right(place: float) -> float:
        return SIDE + (WIDTH - 2 * SIDE) * place

    shapes = []
    for place, text in _labels(y):
        shapes.append(f'<line class="grid" x1="{SIDE}" x2="{WIDTH - SIDE}" y1="{_down(place)}" y2="{_down(place)}"/>')
        shapes.append(_words(SIDE - 6, _down(place) + 4, text, "end"))
    shapes += [_words(right(place), HEIGHT - FOOT + 14, text) for place, text in _labels(x)]
    shapes += [_words(WIDTH / 2, HEIGHT - 5, first), _words(SIDE - 40, TOP - 14, second, "start")]
    for row in sorted(found, key=lambda row: row in best):
        at = right(x.place(row.result.numbers[first])), _down(y.place(row.result.numbers[second]))
        radius, colour = (6, "c1") if row in best else (4, "c4")
        look = f'r="{radius}" style="fill:var(--{colour})"'
        title = f"<title>{html_text(_spoken(row))}</title>"
        shapes.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" {look}>{title}</circle>')
    return _picture(f"{second} over {first}", shapes)


def _spoken(row: SweptRow) -> str:
    values = ", ".join(f"{name} {value}" for name, value in row.run.values.items())
    return f"run {row.run.number}: {values}"


def _table(rows: Sequence[SweptRow], best: Sequence[SweptRow]) -> str:
    """The runs, the best ones first."""
    names, columns = tuple(dict.fromkeys(n for row in rows for n in row.run.values)), columns_of(rows)
    cells = []
    for row in rows:
        numbers = [row.result.numbers.get(column) for column in columns]
        shown = ["" if n is None else count_text(n) if abs(n) >= 1e4 else f"{n:.5g}" for n in numbers]
        mark = "best" if row in best else row.result.outcome
        values = [row.run.values.get(name, "") for name in names]
        cells.append([str(row.run.number), *values, *shown, mark, row.result.cause])
    return table(["run", *names, *columns, "verdict", "cause"], cells)
