"""A small problem that runs of tests train: a dense net, labels that follow from inputs, an update in two passes."""

from pathlib import Path
from typing import Any

import numpy as np

from deployer.fitting.call import fit
from deployer.fitting.callback import Callback
from deployer.fitting.fit import Fitted
from DeployTest.models.parts.dense import dense

BATCH, SAMPLES, WIDTHS = 4, 13, (6, 8, 3)
OPTIONS: dict[str, Any] = {"optimizer": "adam", "lr": 0.02, "accumulate_grad_batches": 2, "epochs": 3, "seed": 3}


def small_model(folder: Path) -> Path:
    """Write the model."""
    return dense(folder / "small.onnx", WIDTHS, ("first", "second"), BATCH, 0, relu=True)


def small_data() -> dict[str, np.ndarray]:
    """Thirteen samples: three batches, and one that is left."""
    draw = np.random.default_rng(1)
    x = draw.standard_normal((SAMPLES, WIDTHS[0])).astype(np.float32)
    return {"input": x, "labels": (x[:, :3].argmax(1)).astype(np.int64)}


def small_fit(folder: Path, model: Path, **more: Any) -> Fitted:
    """Train it."""
    return fit(model, small_data(), "cross_entropy", folder=folder, **{**OPTIONS, **more})


class Stops(Callback):
    """Ends the program once so many passes are made, as an interrupt would."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_segment(self, place: Any, loss: float, lr: float) -> None:
        """Stop where it is time."""
        if place.passes >= self.after:
            raise KeyboardInterrupt


def files(folder: Path) -> dict[str, bytes]:
    """The results of a run."""
    names = ("trained.npz", "trained.safetensors", "history.csv", "checkpoint.safetensors")
    return {name: (folder / name).read_bytes() for name in names}
