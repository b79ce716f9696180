"""The page of a run: confusion matrix of its validation, fragments for notebooks, and names that are only text."""

import json
import pickle
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from deployer.reports.confusion import MOST_CLASSES, confusion, confusion_of
from deployer.reports.facts import RunFacts
from deployer.reports.run_page import RunPage
from DeployTest.fitting.runs import small_data, small_fit, small_model

pytestmark = [pytest.mark.host]
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def test_confusion_of_a_run(tmp_path: Path) -> None:
    """The matrix counts each validation sample once, as float64 predicts it from the trained weights."""
    model, data = small_model(tmp_path), small_data()
    fitted = small_fit(tmp_path / "run", model, validation=data)
    found = fitted.confusion
    assert found is not None
    hidden = np.maximum(data["input"] @ fitted.weights["first.weight"].T + fitted.weights["first.bias"], 0)
    scores = hidden @ fitted.weights["second.weight"].T + fitted.weights["second.bias"]
    expected = np.zeros((3, 3), int)
    for label, predicted in zip(data["labels"], scores.argmax(1), strict=True):
        expected[label, predicted] += 1
    assert np.array_equal(found.matrix, expected)
    assert np.trace(found.matrix) / found.matrix.sum() == pytest.approx(fitted.rows[-1].metrics["accuracy"])
    record = json.loads((tmp_path / "run" / "report.json").read_text())
    assert [tuple(cell) for cell in record["confusion"]["cells"]] == list(found.cells)
    assert "Confusion matrix" in (tmp_path / "run" / "report.html").read_text()


def test_notebook(tmp_path: Path) -> None:
    """A run shows curves and its table in a notebook, also after pickling; without validation it has no matrix."""
    fitted = small_fit(tmp_path / "run", small_model(tmp_path))
    shown = fitted._repr_html_()
    assert fitted.confusion is None
    assert "<h2>Loss</h2>" in shown
    assert "<h2>Epochs</h2>" in shown
    assert shown.startswith('<div class="deployer">')
    assert "<html" not in shown
    again = pickle.loads(pickle.dumps(fitted))
    assert again._repr_html_() == shown
    assert np.array_equal(again.weights["first.weight"], fitted.weights["first.weight"])


def test_names_are_text() -> None:
    """A page has the same tags whatever its model, its classes and its notes are called."""
    pages = []
    for name in ("plain", HOSTILE):
        matrix = confusion_of(2, (name, name), np.array([0, 1]), np.array([0, 0]))
        page = RunPage(RunFacts(name, name, command=name), "passed", [name], [1.0], 1, (), (), (), matrix)
        pages.append(Tags(page.fragment()))
    assert pages[0].tags == pages[1].tags
    assert "script" not in pages[1].tags
    assert "\u202e" not in pages[1].text


def test_many_classes() -> None:
    """Of many classes the most frequent confusions are listed, the most frequent first."""
    expected, predicted = np.array([7, 7, 7, 40, 3]), np.array([9, 9, 7, 41, 3])
    text = Tags(confusion(confusion_of(MOST_CLASSES + 26, (), expected, predicted))).text
    assert "2 of 5 labels right (40.0 %)" in text
    assert "79266.7 %" in text
    assert text.index("792") < text.index("4041")
