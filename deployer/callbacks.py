"""Callbacks of runs: the interface, and those that other libraries have."""

from typing import Any

from deployer.fitting.callback import Callback
from deployer.fitting.runs.run_callbacks import EarlyStopping, ModelCheckpoint

__all__ = ["Callback", "EarlyStopping", "ModelCheckpoint"]

ELSEWHERE = {
    "LearningRateMonitor": "the rate of each epoch is in run.rows and history.csv, and loggers log it",
    "ReduceLROnPlateau": "lr_scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, ...) of train",
    "TQDMProgressBar": "progress=True, the default",
    "RichProgressBar": "progress=True, the default",
    "CSVLogger": 'folder="run" of train, which gets history.csv',
    "TensorBoard": "deployer.loggers.TensorBoardLogger",
    "LambdaCallback": "a subclass of Callback",
}
"""Callbacks of other libraries, and what does the same here."""


def __getattr__(name: str) -> Any:
    """ImportError for a callback of another library, with what does the same here."""
    if name in ELSEWHERE:
        raise ImportError(f"deployer has no {name}; try {ELSEWHERE[name]}")
    raise AttributeError(f"module 'deployer.callbacks' has no attribute {name!r}")
