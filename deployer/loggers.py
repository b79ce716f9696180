"""Callbacks that log a run to TensorBoard, MLflow or Weights & Biases; each needs the extra of its name."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployer.core.errors import ToolMissing
from deployer.fitting.callback import Callback
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import EpochRow

if TYPE_CHECKING:
    from deployer.fitting.fit import Fitted

__all__ = ["Logger", "MLflowLogger", "TensorBoardLogger", "WandbLogger"]


class Logger(Callback):
    """Sends losses of passes and metrics of epochs to `log`, by the number of passes made.

    The loss of every `every`-th pass is logged, and the loss, rate and metrics of each epoch. A subclass overrides
    `log`, and `on_end`, which has the run's result.
    """

    def __init__(self, every: int = 10) -> None:
        self.every = every

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers by name."""
        raise NotImplementedError

    def on_step(self, step: int, loss: float, lr: float) -> None:
        """Log the loss."""
        if step % self.every == 0:
            self.log({"step_loss": loss}, step)

    def on_epoch_end(self, row: EpochRow) -> None:
        """Log the row."""
        self.log({"epoch": row.epoch, "loss": row.loss, "learning_rate": row.rate, **row.named_metrics}, row.passes)


class TensorBoardLogger(Logger):
    """Writes scalars that TensorBoard shows to a folder; the extra `tensorboard`."""

    def __init__(self, folder: Path | str = "runs", every: int = 10) -> None:
        super().__init__(every)
        with _extra("tensorboard"):
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        self._event, self._summary, self._writer = Event, Summary, EventFileWriter(str(folder))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write them."""
        scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(self._event(step=step, wall_time=time.time(), summary=self._summary(value=scalars)))

    def on_epoch_end(self, row: EpochRow) -> None:
        """Write the row to the disk."""
        super().on_epoch_end(row)
        self._writer.flush()

    def on_end(self, fitted: "Fitted") -> None:
        """Complete the file."""
        self._writer.close()


class MLflowLogger(Logger):
    """Logs to the active MLflow run, or to a new one that ends with the training; the extra `mlflow`.

    A new one has the `options` of `mlflow.start_run`.
    """

    def __init__(self, every: int = 10, **options: Any) -> None:
        super().__init__(every)
        with _extra("mlflow"):
            import mlflow
        self._mlflow, self._options, self._is_ours = mlflow, options, False

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """Start a run unless one is active."""
        self._is_ours = self._mlflow.active_run() is None
        if self._is_ours:
            self._mlflow.start_run(**self._options)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log them."""
        self._mlflow.log_metrics(dict(values), step=step)

    def on_end(self, fitted: "Fitted") -> None:
        """Tag the run with the verdict, and end it where it was started here."""
        self._mlflow.set_tag("verdict", fitted.verdict)
        if self._is_ours:
            self._mlflow.end_run()


class WandbLogger(Logger):
    """Logs to the active run of Weights & Biases, or to a new one that ends with the training; the extra `wandb`.

    A new one has the `options` of `wandb.init`.
    """

    def __init__(self, every: int = 10, **options: Any) -> None:
        super().__init__(every)
        with _extra("wandb"):
            import wandb
        self._wandb, self._options, self._is_ours = wandb, options, False
        self._run: Any = None

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """Start a run unless one is active."""
        self._is_ours = self._wandb.run is None
        self._run = self._wandb.init(**self._options) if self._is_ours else self._wandb.run

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log them."""
        self._run.log(dict(values), step=step)

    def on_end(self, fitted: "Fitted") -> None:
        """Note the verdict, and finish the run where it was started here."""
        self._run.summary["verdict"] = fitted.verdict
        if self._is_ours:
            self._run.finish()


@contextmanager
def _extra(extra: str) -> Iterator[None]:
    """Raise ToolMissing, with the command that installs an extra, where its package cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        cause = f"the package {(error.name or extra).partition('.')[0]} is not installed"
        raise ToolMissing(cause, hint=f"pip install 'deployer[{extra}]'") from error
