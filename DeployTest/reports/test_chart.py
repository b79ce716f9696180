"""Charts of notebooks: pictures that any reader of SVG reads, with each curve, gap and limit."""

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from deployer.core.errors import OptionProblem
from deployer.reports.chart import HEIGHT, LEFT, RIGHT, WIDTH, Chart

pytestmark = [pytest.mark.host]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> ElementTree.Element:
    """The picture, read."""
    return ElementTree.fromstring(chart._repr_svg_())


def points(line: ElementTree.Element) -> list[tuple[float, float]]:
    """The places of a curve."""
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_curves() -> None:
    """A curve's points lie in the picture, in order, larger values higher; the legend has the names."""
    picture = drawn(Chart({"loss": [4.0, 2.0, 1.0], "a <b> & c": [0.5, 0.5, 0.5]}))
    first, second = picture.findall(f"{SVG}polyline")
    places = points(first)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted(y for _, y in places)
    assert len({y for _, y in points(second)}) == 1
    assert all(LEFT <= x <= WIDTH - RIGHT and 0 <= y <= HEIGHT for x, y in places + points(second))
    texts = [text.text for text in picture.findall(f"{SVG}text")]
    assert {"loss", "a <b> & c", "epoch"} <= {*texts}
    assert first.attrib["stroke"] != second.attrib["stroke"]


def test_gap_and_limit() -> None:
    """A value that is not finite leaves a gap; a limit is one dashed line; places may be given."""
    chart = Chart({"score": [1.0, math.nan, 2.0, 3.0]}, "windows", {"threshold": 5.0}, places=[10, 20, 30, 40])
    picture = drawn(chart)
    pieces = [points(line) for line in picture.findall(f"{SVG}polyline")]
    assert [len(piece) for piece in pieces] == [1, 2]
    [dashed] = [line for line in picture.findall(f"{SVG}line") if "stroke-dasharray" in line.attrib]
    assert float(dashed.attrib["y1"]) < min(y for piece in pieces for _, y in piece)
    assert "40" in [text.text for text in picture.findall(f"{SVG}text")]


def test_refused() -> None:
    """Nothing to show, and too few places."""
    with pytest.raises(OptionProblem, match="no number to show"):
        drawn(Chart({"loss": [math.nan]}))
    with pytest.raises(OptionProblem, match="2 places for 3 values"):
        drawn(Chart({"loss": [1, 2, 3]}, places=[1, 2]))


def test_saved(tmp_path: Path) -> None:
    """A file has what a notebook shows; the same numbers give the same bytes."""
    Chart({"loss": [1.0]}).save(tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").read_text() == Chart({"loss": [1.0]})._repr_svg_()
