"""Curves as pictures: where points lie, which numbers stand at the axes, and what is left out."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from deployer.fitting.report_page import CURVE_HEIGHT, CURVE_MARGIN, CURVE_WIDTH, Plot, thinned

pytestmark = [pytest.mark.host]


def drawn(plot: Plot) -> tuple[list[list[tuple[float, float]]], dict[str, float]]:
    """The points of each curve, and the height of each number at the upright axis."""
    picture = ElementTree.fromstring(plot.svg[plot.svg.index("<svg") :])
    lines = [line.get("points", "").split() for line in picture.findall("polyline")]
    numbers = {
        str(text.text): float(text.get("y", "")) - 5
        for text in picture.findall("text")
        if text.get("text-anchor") == "end"
    }
    return [[(float(x), float(y)) for x, y in (p.split(",") for p in line)] for line in lines], numbers


def test_places() -> None:
    """Points lie between round numbers in proportion, from 0 on where that is asked."""
    [(first, second)], numbers = drawn(Plot("loss", "epochs", {"training": [(0, 3.0), (4, 1.0)]}))
    assert (first[0], second[0]) == (CURVE_MARGIN, CURVE_WIDTH)
    assert list(numbers) == ["0", "1", "2", "3"]
    assert (first[1], second[1]) == (numbers["3"], numbers["1"]) == (0, pytest.approx(CURVE_HEIGHT * 2 / 3, abs=0.1))
    _, numbers = drawn(Plot("accuracy", "epochs", {"validation": [(1, 0.861), (2, 0.994)]}, from_zero=False))
    assert list(numbers) == ["0.85", "0.9", "0.95", "1"]
    [flat], _ = drawn(Plot("accuracy", "epochs", {"validation": [(1, 1.0), (2, 1.0)]}, from_zero=False))
    assert all(0 <= y <= CURVE_HEIGHT for _, y in flat)


def test_powers() -> None:
    """Equal ratios are equal distances, zero lies at the bottom, the bound is within the picture."""
    points = [(0.0, 1e-8), (1.0, 1e-6), (2.0, 0.0), (3.0, 1e-4)]
    plot = Plot("drift", "passes", {"loss": points}, powers=True, bound=1e-2)
    [line], numbers = drawn(plot)
    heights = [y for _, y in line]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[3], abs=0.2)
    assert heights[2] == CURVE_HEIGHT == numbers["0"]
    assert float(re.findall(r'y1="([\d.]+)" y2="[\d.]+" stroke="#c00"', plot.svg)[0]) == numbers["1e-2"]
    assert drawn(Plot("drift", "passes", {"loss": [(0, 0.0)]}, powers=True))[0] == [[(CURVE_MARGIN, CURVE_HEIGHT)]]


def test_what_is_not_finite() -> None:
    """It is left out, and a plot of nothing says so; names are text."""
    plot = Plot("loss", "epochs", {"a<b": [(0, 1.0), (1, math.nan), (2, math.inf), (3, 2.0)]})
    [line], _ = drawn(plot)
    assert len(line) == 2
    assert "a&lt;b" in plot.svg
    assert "nothing to show" in Plot("loss", "epochs", {"a": [(0, math.nan)]}).svg


def test_thinned() -> None:
    """Means of equal parts at their ends; a few values stay as they are."""
    assert thinned(np.array([1.0, 3.0], np.float32), 2, 400) == [(0.5, 1.0), (1.0, 3.0)]
    assert thinned(np.arange(8), 4, 2) == [(1.0, 1.5), (2.0, 5.5)]
    assert thinned(np.zeros(0), 4, 2) == []
