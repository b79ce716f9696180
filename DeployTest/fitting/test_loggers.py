"""Loggers: what they send to each service, and the extra that is named where its package is not installed."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployer.core.errors import ToolMissing
from deployer.fitting.fit import Fitted
from deployer.loggers import Logger, MLflowLogger, TensorBoardLogger, WandbLogger
from DeployTest.fitting.runs import small_data, small_fit, small_model

pytestmark = [pytest.mark.host, pytest.mark.training]
LOGGED = {"epoch", "loss", "learning_rate", "validation_loss", "validation_accuracy"}
EVERY = 5


def trained(folder: Path, logger: Logger) -> Fitted:
    """A run of twelve passes in three epochs that a logger watches."""
    return small_fit(folder / "run", small_model(folder), validation=small_data(), callback=logger)


def check(logged: list[tuple[dict[str, float], int]], fitted: Fitted) -> None:
    """Every fifth loss, and each epoch's row, by the passes made."""
    losses = {step: values["step_loss"] for values, step in logged if "step_loss" in values}
    assert losses == {step: fitted.losses[step - 1] for step in (5, 10)}
    rows = {step: values for values, step in logged if "step_loss" not in values}
    assert list(rows) == [4, 8, 12]
    assert {*rows[12]} == LOGGED
    assert rows[12]["validation_accuracy"] == fitted.rows[-1].metrics["accuracy"]


@pytest.mark.parametrize("is_active", [False, True])
def test_mlflow(is_active: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses the active run and leaves it open, or starts and ends one of its own with the options."""
    logged: list[tuple[dict[str, float], int]] = []
    calls: list[Any] = []
    fake = SimpleNamespace(
        active_run=lambda: "theirs" if is_active else None,
        start_run=lambda **options: calls.append(options),
        log_metrics=lambda values, step: logged.append((values, step)),
        set_tag=lambda *tag: calls.append(tag),
        end_run=lambda: calls.append("end"),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    fitted = trained(tmp_path, MLflowLogger(EVERY, run_name="mine"))
    check(logged, fitted)
    tag = ("verdict", "passed")
    assert calls == ([tag] if is_active else [{"run_name": "mine"}, tag, "end"])


@pytest.mark.parametrize("is_active", [False, True])
def test_wandb(is_active: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses the active run and leaves it open, or starts and finishes one of its own with the options."""
    logged: list[tuple[dict[str, float], int]] = []
    calls: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step: logged.append((values, step)), finish=lambda: calls.append("finish"), summary={}
    )
    fake = SimpleNamespace(run=run if is_active else None, init=lambda **options: calls.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    check(logged, trained(tmp_path, WandbLogger(EVERY, project="mine")))
    assert run.summary == {"verdict": "passed"}
    assert calls == ([] if is_active else [{"project": "mine"}, "finish"])


def test_tensorboard(tmp_path: Path) -> None:
    """TensorBoard's own reader finds the numbers, as float32."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fitted = trained(tmp_path, TensorBoardLogger(tmp_path / "runs", EVERY))
    read = events.EventAccumulator(str(tmp_path / "runs"))
    read.Reload()
    assert {*read.Tags()["scalars"]} == {*LOGGED, "step_loss"}
    losses = {event.step: event.value for event in read.Scalars("step_loss")}
    assert losses == {step: fitted.losses[step - 1] for step in (5, 10)}
    assert [event.step for event in read.Scalars("validation_loss")] == [4, 8, 12]


@pytest.mark.parametrize(
    ("logger", "package"), [(TensorBoardLogger, "tensorboard"), (MLflowLogger, "mlflow"), (WandbLogger, "wandb")]
)
def test_missing_packages(logger: type[Logger], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, before anything is trained."""
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ToolMissing, match=rf"{package} is not installed[\s\S]*pip install 'deployer\[{package}\]'"):
        logger()
