"""Progress of a run: a bar on a terminal, lines alone elsewhere."""

import io

import numpy as np
import pytest

from deployer.commands.fit import Lines
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import EpochRow
from deployer.running.terminal import Terminal

pytestmark = [pytest.mark.host]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bar(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar has loss, learning rate, passes and their speed; without a terminal an epoch is a line, and no more."""
    monkeypatch.setattr(Terminal, "is_terminal", is_terminal)
    console = Terminal(width=200)
    console.file = io.StringIO()
    shown = Lines(console)
    shown.on_stage("build")
    shown.on_begin(8, 4, CheckpointPlace())
    for made in range(1, 5):
        shown.on_segment(CheckpointPlace(passes=made, losses=np.ones(made, np.float32)), 1.25, 0.003)
    shown.bar.refresh()
    shown.on_epoch_end(EpochRow(1, 4, 1.25, 0.003))
    shown.bar.stop()
    said = console.file.getvalue()
    words = ("build", "loss 1.25  rate 0.003", "4/8", "passes/s")
    assert [word in said for word in words] == [is_terminal] * len(words)
    assert "epoch 1: loss 1.25" in said
    assert is_terminal or said.count("\n") == 1
