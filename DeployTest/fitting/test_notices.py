"""Notices of a run: a loss that explodes, what early stopping watches, and the bar of a run that Python started."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DeployerWarning
from deployer.fitting.call import fit
from deployer.fitting.callback import Callback
from deployer.fitting.history import EXPLODED, exploded
from deployer.fitting.progress import progress_bar
from deployer.running.terminal import Terminal
from DeployTest.fitting.runs import small_data, small_fit, small_model

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.mark.parametrize(
    ("losses", "place"),
    [
        ([2, 2e6, 3], None),
        ([2, 1, 2.1e6, 3, 5e6], 2),
        ([-2, -2.1e6], 1),
        ([2, np.inf], 1),
        ([0, 5], None),
        ([np.nan, 1], None),
        ([], None),
    ],
)
def test_exploded(losses: list[float], place: int | None) -> None:
    """A loss above 1e6 times the first one, by magnitude; the first such pass is named."""
    text = exploded(np.array(losses, np.float32))
    assert EXPLODED == 1e6
    assert text.startswith(f"the loss of pass {place} is ") if place is not None else text == ""


def test_exploding_run(tmp_path: Path) -> None:
    """It is told once while the run goes on, with a way out, and stands among the notes."""
    data, warnings = small_data(), list[DeployerWarning]()
    data["input"][4:] *= 1e8
    small_fit(tmp_path, small_model(tmp_path), warn=warnings.append, shuffle=False, check_passes=0)
    assert not warnings, "as long as nothing explodes"
    options: dict[str, Any] = {"optimizer": "sgd", "lr": 1e-9, "shuffle": False, "check_passes": 0, "epochs": 2}
    fitted = fit(small_model(tmp_path), data, "cross_entropy", folder=tmp_path / "b", warn=warnings.append, **options)
    assert len(fitted.losses) == 8
    assert fitted.losses[1] > 1e6 * fitted.losses[0]
    [warning] = warnings
    assert "the loss of pass 1 is " in str(warning)
    assert "a smaller learning rate, max_grad_norm" in str(warning)
    assert sum("the loss of pass 1 is " in note for note in fitted.notes) == 1


class Messages(Callback):
    """Keeps messages."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_message(self, text: str) -> None:
        """Keep it."""
        self.texts.append(text)


def test_early_stopping(tmp_path: Path) -> None:
    """At the beginning what it watches, at the end both values; without validation samples it is the training loss."""
    model, held_out, told = small_model(tmp_path), small_data(), Messages()
    held_out["labels"] = (held_out["labels"] + 1) % 3
    fitted = small_fit(
        tmp_path / "run", model, validation=held_out, patience=2, epochs=50, check_passes=0, callback=told,
        monitor="top_2", top=(2,),
    )  # fmt: skip
    last, best = (fitted.rows[i - 1].metrics["top_2"] for i in (len(fitted.rows), fitted.best_epoch))
    end = f"validation top 2 is {last:.4g}, the best one, {best:.4g}, is of epoch {fitted.best_epoch} (patience 2)"
    assert told.texts == [
        "early stopping watches validation top 2 (larger is better), patience 2 epochs",
        f"early stopping after epoch {len(fitted.rows)}: {end}",
    ]
    assert told.texts[1] in fitted.notes
    told = Messages()
    small_fit(tmp_path / "alone", model, patience=1, epochs=1, check_passes=0, callback=told)
    assert told.texts == ["early stopping watches training loss (smaller is better), patience 1 epoch"]


@pytest.mark.parametrize(("is_terminal", "progress"), [(True, True), (True, False), (False, True)])
def test_progress(is_terminal: bool, progress: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run from Python shows its progress on standard error where that is a terminal, unless it is turned off."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setattr(Terminal, "is_terminal", is_terminal)
    small_fit(tmp_path, small_model(tmp_path), epochs=2, progress=progress)
    assert ("epoch 2: loss" in written.getvalue()) == (is_terminal and progress)
    assert is_terminal or not written.getvalue()


@pytest.mark.parametrize("has_widgets", [True, False])
def test_progress_in_a_notebook(has_widgets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of epochs, and a bar where the notebook has widgets."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("deployer.fitting.progress.find_spec", lambda name: has_widgets or None)
    shown = progress_bar()
    assert shown is not None
    assert shown.bar.disable is not has_widgets
