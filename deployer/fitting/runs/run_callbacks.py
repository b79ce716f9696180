"""Early stopping and checkpoints of weights as callbacks, as other libraries have them."""

import importlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.fitting.callback import Callback, Callbacks
from deployer.fitting.history import LOSS
from deployer.fitting.loop import PATIENCE
from deployer.fitting.safetensors import safetensors_bytes
from deployer.fitting.task import TrainingRun
from deployer.running.output import write_file

if TYPE_CHECKING:
    from deployer.fitting.fit import Fitted

OF_TORCH = (".pt", ".pth", ".ckpt")
"""Suffixes of files that `torch.load` reads."""
SUFFIX = ".safetensors"


@dataclass(eq=False)
class EarlyStopping(Callback):
    """Ends a run after `patience` epochs without a better `monitor`, as the arguments `patience` and `monitor` do.

    `mode` is "min" or "max" where the metric is a function; with `restore_best_weights` the trained weights are those
    of the best epoch. A value counts as better for `patience` where it is so by more than `min_delta`, and for the best
    epoch in any case. After the run `stopped_epoch` is the epoch that it stopped at, counted from 1, or 0 where it did
    not; `best_epoch` the best one, and `best_score` the metric there.
    """

    monitor: str = LOSS
    patience: int = 3
    mode: str = ""
    restore_best_weights: bool = False
    min_delta: float = 0.0
    verbose: bool = True
    stopped_epoch: int = field(default=0, init=False)
    best_epoch: int = field(default=0, init=False)
    best_score: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Raise OptionProblem for numbers that nothing follows."""
        self.min_delta = abs(self.min_delta)
        if not math.isfinite(self.min_delta):
            raise OptionProblem(f"min_delta is {self.min_delta:g}", hint="a number such as 0.001")
        if self.patience < 1:
            raise OptionProblem(f"patience is {self.patience}", hint="1 or more")

    @property
    def best(self) -> float | None:
        """The monitored metric in the best epoch."""
        return self.best_score

    def on_end(self, fitted: "Fitted") -> None:
        """Note where the run stopped, and its best epoch."""
        self.stopped_epoch = fitted.rows[-1].epoch if fitted.ended == PATIENCE else 0
        self.best_epoch, row = fitted.best_epoch, fitted.rows[fitted.best_epoch - 1] if fitted.best_epoch else None
        name = TrainingRun(monitor=self.monitor).monitored
        self.best_score = row.metrics.get(name, row.loss) if row else None


@dataclass(eq=False)
class ModelCheckpoint(Callback):
    """Writes trained weights and running statistics of the epoch with the best `monitor`; a better one replaces them.

    `dirpath` is the file, or the folder of `filename`. A name that ends with .pt, .pth or .ckpt is for `torch.load` and
    `load_state_dict(..., strict=False)`, any other is a safetensors file. `save_last` writes last.* beside it at each
    checkpoint. A run goes on from its own checkpoints, in `folder`, with `resume`.
    """

    dirpath: Path | str
    filename: str = "best"
    monitor: str = ""
    mode: str = ""
    save_best_only: bool = True
    save_top_k: int = 1
    save_last: bool = False
    save_weights_only: bool = True
    every_n_epochs: int = 1
    verbose: bool = False

    def __post_init__(self) -> None:
        """Raise OptionProblem for numbers that nothing follows."""
        if self.save_top_k != 1:
            raise OptionProblem(f"save_top_k is {self.save_top_k}", hint="1: the weights of the best epoch")
        if not self.save_weights_only:
            hint = 'folder="run" of train keeps checkpoints, from which resume=True goes on'
            raise OptionProblem("save_weights_only is False, and the file has weights alone", hint=hint)
        if self.every_n_epochs != 1:
            raise OptionProblem(f"every_n_epochs is {self.every_n_epochs}", hint="1: a better epoch is written at once")
        for name, path in {"dirpath": str(self.dirpath), "filename": self.filename}.items():
            if "{" in path:
                raise OptionProblem(f"{name} is {path!r}", hint="a plain name, whose file the best epoch replaces")

    @property
    def best_model_path(self) -> Path:
        """The file."""
        path = Path(self.dirpath)
        path = path if path.suffix else path / self.filename
        return path if path.suffix else path.with_name(path.name + SUFFIX)

    def on_checkpoint(self, weights: Mapping[str, Array], is_best: bool) -> None:
        """Write the files that are due."""
        path = self.best_model_path
        if is_best or not self.save_best_only:
            _write(path, weights)
        if self.save_last:
            _write(path.with_name(f"last{path.suffix}"), weights)


def _write(path: Path, weights: Mapping[str, Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix not in OF_TORCH:
        write_file(path, safetensors_bytes(weights))
        return
    torch: Any = importlib.import_module("torch")
    content = io.BytesIO()
    torch.save({name: torch.from_numpy(array.copy()) for name, array in weights.items()}, content)
    write_file(path, content.getvalue())


def with_callbacks(run: TrainingRun, callbacks: Callbacks) -> TrainingRun:
    """The run with what its callbacks choose; OptionProblem where two of them, or an argument and one, differ."""
    several: Sequence[Any] = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    for own in several:
        if isinstance(own, EarlyStopping):
            if run.patience:
                raise OptionProblem("early stopping is given twice", hint="one EarlyStopping, or patience and monitor")
            restore = run.restore_best or own.restore_best_weights
            run = replace(_monitoring(run, own.monitor, own.mode), patience=own.patience, restore_best=restore)
            run = replace(run, min_delta=own.min_delta)
        if isinstance(own, ModelCheckpoint) and own.monitor:
            run = _monitoring(run, own.monitor, own.mode)
    return run


def _monitoring(run: TrainingRun, monitor: str, mode: str) -> TrainingRun:
    """The run with the monitored metric of a callback."""
    mode = "" if mode in ("auto", "min") and monitor.endswith(LOSS) else mode.replace("auto", "")
    if run.monitor not in (LOSS, monitor):
        facts = [("metrics", f"{run.monitor}, {monitor}")]
        raise OptionProblem("the callbacks monitor different metrics", facts, "one metric for all")
    return replace(run, monitor=monitor, monitor_mode=mode or run.monitor_mode)
