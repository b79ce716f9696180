"""Curves as pictures: where points lie, which numbers stand at the axes, and what is left out."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from deployer.reports.plot import ACROSS, HEIGHT, TOP, Plot, scale_of, thinned

pytestmark = [pytest.mark.host]


def drawn(plot: Plot) -> tuple[list[list[tuple[float, float]]], dict[str, float]]:
    """The points of each curve, and the height of each number at the upright axis."""
    frame = ElementTree.fromstring(plot.html[plot.html.index('<div class="frame') :].partition("</div>")[0] + "</div>")
    lines = [line.get("points", "").split() for line in frame.iter("polyline")]
    numbers = {str(text.text): float(text.get("y", "")) - 4 for text in frame[0].iter("text")}
    return [[(float(x), float(y)) for x, y in (p.split(",") for p in line)] for line in lines], numbers


def test_places() -> None:
    """Points lie between round numbers in proportion, from 0 on where that is asked."""
    [(first, second)], numbers = drawn(Plot("loss", "epochs", {"training": [(0, 3.0), (4, 1.0)]}))
    assert (first[0], second[0]) == (0, ACROSS)
    assert list(numbers) == ["0", "1", "2", "3"]
    assert (first[1], second[1]) == (numbers["3"], numbers["1"]) == (TOP, pytest.approx(TOP + HEIGHT * 2 / 3, abs=0.1))
    _, numbers = drawn(Plot("rate", "epochs", {"validation": [(1, 0.861), (2, 0.994)]}, "free"))
    assert list(numbers) == ["0.85", "0.9", "0.95", "1"]
    _, numbers = drawn(Plot("accuracy", "epochs", {"validation": [(1, 0.861), (2, 0.994)]}, "share"))
    assert (min(map(float, numbers)), max(map(float, numbers))) == (0, 1)
    [flat], _ = drawn(Plot("accuracy", "epochs", {"validation": [(1, 1.0), (2, 1.0)]}, "free"))
    assert all(TOP <= y <= TOP + HEIGHT for _, y in flat)


def test_powers() -> None:
    """Equal ratios are equal distances, zero has no place and is counted, the bound is within the picture."""
    points = [(0.0, 1e-8), (1.0, 1e-6), (2.0, 0.0), (3.0, 1e-4)]
    plot = Plot("drift", "passes", {"loss": points}, "powers", bound=1e-2)
    [line], numbers = drawn(plot)
    heights = [y for _, y in line]
    assert len(line) == 3
    assert "1 values are not shown" in plot.html
    assert "0" not in numbers
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    limit = re.findall(r'class="limit"[^>]* y1="([\d.]+)"', plot.html)
    assert [float(y) for y in limit] == [pytest.approx(numbers["0.01"], abs=0.1)]
    assert "nothing to show" in Plot("drift", "passes", {"loss": [(0, 0.0)]}, "powers").html


def test_what_is_not_finite() -> None:
    """It is left out and counted, and a plot of nothing says so; names are text."""
    plot = Plot("loss", "epochs", {"a<b": [(0, 1.0), (1, math.nan), (2, math.inf), (3, 2.0)]})
    [line], _ = drawn(plot)
    assert len(line) == 2
    assert "2 values are not shown" in plot.html
    assert "a&lt;b" in plot.html
    assert "nothing to show" in Plot("loss", "epochs", {"a": [(0, math.nan)]}).html


def test_scale_of_losses() -> None:
    """Powers where positive losses are far apart; from 0 otherwise."""
    assert scale_of([1e-4, 1.0]) == "powers"
    assert scale_of([0.5, 1.0]) == "zero"
    assert scale_of([0.0, 1.0, math.nan]) == "zero"
    assert scale_of([]) == "zero"


def test_thinned() -> None:
    """Means of equal parts at their ends; a few values stay as they are."""
    assert thinned(np.array([1.0, 3.0], np.float32), 2, 400) == [(0.5, 1.0), (1.0, 3.0)]
    assert thinned(np.arange(8), 4, 2) == [(1.0, 1.5), (2.0, 5.5)]
    assert thinned(np.zeros(0), 4, 2) == []
