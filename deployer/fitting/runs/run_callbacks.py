"""Early stopping and checkpoints of weights as callbacks, as other libraries have them."""

import importlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.fitting.callback import Callback, Callbacks
from deployer.fitting.history import LOSS
from deployer.fitting.safetensors import safetensors_bytes
from deployer.fitting.task import TrainingRun
from deployer.running.output import write_file

OF_TORCH = (".pt", ".pth", ".ckpt")
"""Suffixes of files that `torch.load` reads."""
SUFFIX = ".safetensors"


@dataclass(eq=False)
class EarlyStopping(Callback):
    """Ends a run after `patience` epochs without a better `monitor`, as the arguments `patience` and `monitor` do.

    `mode` is "min" or "max" where the metric is a function; with `restore_best_weights` the trained weights are those
    of the best epoch.
    """

    monitor: str = LOSS
    patience: int = 3
    mode: str = ""
    restore_best_weights: bool = False
    min_delta: float = 0.0
    verbose: bool = True

    def __post_init__(self) -> None:
        """Raise OptionProblem for numbers that nothing follows."""
        if self.min_delta:
            raise OptionProblem(f"min_delta is {self.min_delta:g}", hint="0: every better value counts")
        if self.patience < 1:
            raise OptionProblem(f"patience is {self.patience}", hint="1 or more")


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

    def __post_init__(self) -> None:
        """Raise OptionProblem for numbers that nothing follows."""
        if self.save_top_k != 1:
            raise OptionProblem(f"save_top_k is {self.save_top_k}", hint="1: the weights of the best epoch")
        if "{" in self.filename:
            raise OptionProblem(
                f"filename is {self.filename!r}", hint="a plain name, whose file the best epoch replaces"
            )

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
