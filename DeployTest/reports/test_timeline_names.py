"""Names of steps in the timeline, at both widths of a page."""

import re
from html import unescape

import pytest

from deployer.reports.steps import WIDTHS, StepTime, timeline


def row(name: str) -> StepTime:
    """A step of that name."""
    return StepTime(0, name, "Conv", "train", 1, 5, 0, 0, 5)


@pytest.mark.parametrize("kind", WIDTHS)
def test_long_names_keep_both_ends(kind: str) -> None:
    """Steps that differ at either end of a long name are told apart on wide and on narrow pages."""
    middle = "_ds_blocks_" * 5
    names = [f"{begin}{middle}{end}" for begin in ("node_1", "node_2") for end in ("Conv", "Relu")]
    page = timeline([row(name) for name in names], "host")
    shown = [unescape(text) for text in re.findall(rf'<text class="{kind}"[^>]*>([^<]*)<title>', page)]
    assert len(set(shown)) == len(names)
    assert all(len(text) <= WIDTHS[kind] for text in shown)
    assert all(page.count(f"0 {name} (Conv)") >= len(WIDTHS) for name in names)


def test_short_names_are_whole() -> None:
    """A name that fits is written once, as it is."""
    assert re.findall(r"<text x[^>]*>([^<]*)<title>", timeline([row("0/Conv")], "host")) == ["0/Conv"]
