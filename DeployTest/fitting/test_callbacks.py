"""Callbacks of a run: the hooks and their order, exceptions, several callbacks, and hooks that nothing would call."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deployer
from deployer.core.errors import OptionProblem
from deployer.fitting.callback import Callback, CallbackGroup, callback_group
from deployer.fitting.fit import Fitted
from deployer.fitting.history import EpochRow
from deployer.fitting.runs.run_callbacks import EarlyStopping, ModelCheckpoint
from DeployTest.fitting.runs import files, small_data, small_fit, small_model

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's file."""
    return small_model(tmp_path_factory.mktemp("model"))


class Recorder(Callback):
    """Records the calls of a user's hooks."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.losses: list[float] = []
        self.metrics: list[Mapping[str, float]] = []
        self.ended: Fitted | None = None

    def on_begin(self, passes: int, per_epoch: int, place: Any) -> None:
        """Keep the sizes."""
        self.calls.append(f"begin {passes} {per_epoch} {place.passes}")

    def on_step(self, step: int, loss: float, lr: float) -> None:
        """Keep the loss."""
        self.calls.append(f"step {step} {lr:g}")
        self.losses.append(loss)

    def on_evaluation(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics."""
        self.calls.append(f"evaluation {epoch}")
        self.metrics.append(metrics)

    def on_epoch_end(self, row: EpochRow) -> None:
        """Keep the number."""
        self.calls.append(f"epoch {row.epoch}")

    def on_end(self, fitted: Fitted) -> None:
        """Keep the result."""
        self.calls.append("end")
        self.ended = fitted


def test_order_of_hooks(model: Path, tmp_path: Path) -> None:
    """Each pass is a step with its loss; then evaluation, end of the epoch, and the end of the run with its result."""
    seen, other = Recorder(), Recorder()
    fitted = small_fit(tmp_path, model, validation=small_data(), callback=[seen, other])
    expected = ["begin 12 4 0"]
    for epoch in (1, 2, 3):
        expected += [f"step {step} 0.02" for step in range(4 * epoch - 3, 4 * epoch + 1)]
        expected += [f"evaluation {epoch}", f"epoch {epoch}"]
    assert seen.calls == other.calls == [*expected, "end"]
    assert tuple(seen.losses) == fitted.losses
    assert seen.metrics == [row.metrics for row in fitted.rows]
    assert seen.ended is fitted


def test_no_evaluation_without_validation(model: Path, tmp_path: Path) -> None:
    """Nothing is evaluated, so the hook is not called."""
    seen = Recorder()
    small_fit(tmp_path, model, callback=seen, epochs=1)
    assert not seen.metrics
    assert seen.calls[-2:] == ["epoch 1", "end"]


class Fails(Callback):
    """Raises in a hook at its n-th call."""

    def __init__(self, hook: str, at: int) -> None:
        self.left = at
        setattr(self, hook, self._fail)

    def _fail(self, *args: Any) -> None:
        self.left -= 1
        if not self.left:
            raise ZeroDivisionError("of the user")


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("hook", "at"), [("on_step", 6), ("on_segment", 2), ("on_evaluation", 2), ("on_epoch_end", 2), ("on_end", 1)]
)
def test_exceptions_of_hooks(hook: str, at: int, model: Path, tmp_path: Path) -> None:
    """The exception reaches the caller from its place, and the run resumes with the bits of one that had none."""
    options = {"validation": small_data(), "checkpoint_every": 1}
    with pytest.raises(ZeroDivisionError, match="of the user") as caught:
        small_fit(tmp_path / "run", model, callback=Fails(hook, at), **options)
    assert caught.traceback[-1].name == "_fail"
    resumed = small_fit(tmp_path / "run", model, resume=True, **options)
    whole = small_fit(tmp_path / "whole", model, **options)
    assert resumed.losses == whole.losses
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_checkpoint_before_the_end_of_an_epoch(model: Path, tmp_path: Path) -> None:
    """The hook finds the checkpoint of the epoch that has ended."""

    class Finds(Callback):
        def on_epoch_end(self, row: EpochRow) -> None:
            found.append((tmp_path / "checkpoint.safetensors").read_bytes())

    found: list[bytes] = []
    small_fit(tmp_path, model, callback=Finds(), epochs=2)
    assert len(set(found)) == 2
    assert found[-1] == (tmp_path / "checkpoint.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("name", "guess"),
    [("on_train_epoch_end", "on_epoch_end"), ("on_steps", "on_step"), ("on_epoch_ended", "on_epoch_end")],
)
def test_unknown_hooks(name: str, guess: str) -> None:
    """A hook that nothing would call is refused when its class is made, with the one that is meant."""
    with pytest.raises(OptionProblem, match=f"did you mean {guess}"):
        type("Mine", (Callback,), {name: lambda self: None})
    with pytest.raises(OptionProblem, match=r"hooks +on_data, "):
        type("Mine", (Callback,), {"on_pizza": None})


def two(self: Any, epoch: int, numbers: Any) -> None:
    """Take two arguments at the end of an epoch."""


def short(self: Any, step: int) -> None:
    """Take the number of the pass alone."""


@pytest.mark.parametrize(
    ("hook", "own", "way_out"),
    [("on_epoch_end", two, r"def on_epoch_end\(self, row\)"), ("on_step", short, r"\(self, step, loss, lr\)")],
)
def test_hooks_with_other_arguments(hook: str, own: Any, way_out: str) -> None:
    """A hook that would be called with something else than it takes is refused when its class is made."""
    with pytest.raises(OptionProblem, match=rf"Mine\.{hook} takes other arguments[\s\S]*try +def[\s\S]*") as caught:
        type("Mine", (Callback,), {hook: own})
    assert re.search(way_out, caught.value.hint)


def test_hooks_with_names_of_their_own() -> None:
    """Other names, arguments with defaults behind those of the hook, and any number of them."""
    for own in (lambda self, each: each, lambda self, row, seen=(): seen, lambda self, *given: given):
        type("Mine", (Callback,), {"on_epoch_end": own})


def test_what_is_no_callback() -> None:
    """A class, and something else, with what to give instead."""
    with pytest.raises(OptionProblem, match=r"the class Recorder.*[\s\S]*Recorder\(\)"):
        callback_group(Recorder)  # type: ignore[arg-type]
    with pytest.raises(OptionProblem, match="callback is a int"):
        callback_group([Recorder(), 3])  # type: ignore[list-item]
    assert deployer.Callback is Callback


def test_groups_pass_on_every_hook() -> None:
    """Each hook of the interface reaches each callback with its arguments."""
    hooks = [name for name in vars(Callback) if name.startswith("on_")]
    for hook in hooks:
        calls: list[tuple[Any, ...]] = []
        one = Callback()
        setattr(one, hook, lambda *args, calls=calls: calls.append(args))
        given = [np.float64(i) for i in range(len(inspect.signature(getattr(Callback, hook)).parameters) - 1)]
        getattr(CallbackGroup([one, one]), hook)(*given)
        assert calls == [tuple(given)] * 2, hook


def test_what_the_package_itself_has() -> None:
    """Each name that is loaded when it is first used is there."""
    for name in (*deployer.LAZY, *(name for name in deployer.LAZY_MODULES if name != "torch")):
        assert getattr(deployer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        deployer.nothing  # noqa: B018


class Keras(Callback):
    """Has hooks as they are written for Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        """Keep the call."""
        self.calls.append(("train begin", dict(logs)))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keep the number."""
        self.calls.append(("epoch begin", epoch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keep the number and the loss."""
        self.calls.append(("batch", batch, logs["loss"]))

    def on_test_end(self, logs: Any) -> None:
        """Keep the metrics."""
        self.calls.append(("test", logs["loss"], logs.get("acc")))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep the numbers."""
        self.calls.append(("epoch", epoch, logs["loss"], logs["val_loss"], logs["val_acc"], logs.get("accuracy")))

    def on_train_end(self) -> None:
        """Keep the call."""
        self.calls.append(("train end",))

    def on_checkpoint(self, weights: Mapping[str, Any], is_best: bool) -> None:
        """Keep the call: a hook of ours beside them."""
        self.calls.append(("checkpoint",))


class Child(Keras):
    """Takes one hook as it is here again."""

    def on_epoch_end(self, row: EpochRow) -> None:  # type: ignore[override]
        """Keep the row's number."""
        self.calls.append(("row", row.epoch))


def test_hooks_of_keras(model: Path, tmp_path: Path) -> None:
    """They mean what they mean there: epochs and batches from 0 on, numbers by their names."""
    seen, child = Keras(), Child()
    fitted = small_fit(tmp_path, model, validation=small_data(), callback=[seen, child], epochs=2, train_metrics=True)
    expected: list[tuple[Any, ...]] = [("train begin", {})]
    for row in fitted.rows:
        epoch, losses = row.epoch - 1, fitted.losses[row.passes - 4 : row.passes]
        values = row.loss, row.metrics["loss"], row.metrics["accuracy"], row.train_metrics["accuracy"]
        expected += [("epoch begin", epoch), *(("batch", i, loss) for i, loss in enumerate(losses))]
        expected += [("test", *values[1:3]), ("checkpoint",), ("epoch", epoch, *values)]
    expected.append(("train end",))
    assert seen.calls == expected
    assert child.calls == [("row", x[1] + 1) if x[0] == "epoch" else x for x in expected]
    with pytest.raises(AttributeError, match="no attribute 'model'; try on_checkpoint"):
        seen.model.stop_training = True


@pytest.mark.parametrize(
    ("hook", "way_out"),
    [
        ("on_train_epoch_end", r"did you mean on_epoch_end\? def on_epoch_end\(self, row\)"),
        ("on_train_end", r"did you mean on_end\? def on_end\(self, fitted\)"),
        ("on_train_start", r"def on_begin\(self, passes, per_epoch, place\)"),
        ("on_train_batch_begin", r"def on_step\(self, step, loss, lr\)"),
        ("on_epoch_end", r"def on_epoch_end\(self, row\)"),
    ],
)
def test_hooks_of_lightning(hook: str, way_out: str) -> None:
    """A run has no trainer: they are refused when their class is made, with the hook to write."""

    def own(self: Any, trainer: Any, pl_module: Any) -> None:
        """Take what Lightning gives."""

    own.__name__ = hook
    with pytest.raises(OptionProblem, match=way_out):
        type("Mine", (Callback,), {hook: own})


def test_early_stopping_by_a_least_difference(model: Path, tmp_path: Path) -> None:
    """A value that is better by less does not count for patience, and does for the best epoch."""
    options: dict[str, Any] = {"validation": small_data(), "epochs": 6, "lr": 1e-4}
    loose = EarlyStopping("val_loss", patience=2)
    whole = small_fit(tmp_path / "whole", model, callback=loose, **options)
    assert (len(whole.rows), loose.stopped_epoch, loose.best_epoch) == (6, 0, 6)
    strict = EarlyStopping("val_loss", patience=2, min_delta=0.5, restore_best_weights=True)
    fitted = small_fit(tmp_path / "run", model, callback=strict, **options)
    assert (len(fitted.rows), strict.stopped_epoch, strict.best_epoch) == (3, 3, 3)
    assert strict.best == strict.best_score == fitted.rows[2].metrics["loss"] < fitted.rows[0].metrics["loss"]
    assert any("(patience 2, min_delta 0.5)" in note for note in fitted.notes)
    with pytest.raises(OptionProblem, match="save_weights_only is False"):
        ModelCheckpoint("best.pt", save_weights_only=False)
