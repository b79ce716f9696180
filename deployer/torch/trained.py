"""The result of training a module: its weights, predictions, metrics, and the library that goes on from it."""

import copy
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.operator import Array
from deployer.firmware.common import LibraryForm
from deployer.firmware.replay import BALANCED, ReplayOptions
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.fit import Fitted
from deployer.fitting.loop import DIVERGED
from deployer.fitting.metrics import MetricSpecs
from deployer.fitting.safetensors import safetensors_bytes
from deployer.running.output import write_file
from deployer.sizing.library_folder import Library
from deployer.torch.boards.packaging import LibraryOptions, batch_file, forward_files, forward_of, write
from deployer.torch.data import read_columns
from deployer.torch.loss_choice import ANY, ONE
from deployer.torch.objective_step import ObjectiveStep, typed
from deployer.torch.own_loop.evaluation import ModuleOutputs, outputs_of
from deployer.torch.own_loop.module_metrics import measured
from deployer.torch.samples.conversion import Conversion
from deployer.torch.weights import has_best, load_into

ELSEWHERE = {
    "save_checkpoint": 'train(..., folder="run") keeps checkpoints, and resume=True goes on from them',
    "to_onnx": "run.export_onnx(path)",
    "val_loss": "run.val_losses",
    "validation_losses": "run.val_losses",
    "train_losses": 'run.losses, of each pass, or run.history["loss"], of each epoch',
    "best_model": "run.model",
    "best_val_loss": 'run.history["val_loss"][run.best_epoch - 1]',
    "best_loss": 'run.history["val_loss"][run.best_epoch - 1]',
    "best_metrics": "run.rows[run.best_epoch - 1].metrics",
    "size": 'run.package(folder).manifest["bytes"]',
    "module": "run.model",
    "callback_metrics": "run.metrics",
    "accuracy": 'run.evaluate(x, y)["accuracy"]',
    "score": "run.evaluate(x, y)",
    "test": "run.evaluate(x, y)",
    "loss": "run.losses, of each pass, or run.evaluate(x, y)",
    "save_weights": "run.save(path)",
    "parameters": "run.model.parameters()",
    "eval": "run.model, a copy of the module in evaluation mode",
    "plot": 'run.history, whose columns are lists; the run itself in a notebook; folder="run", which gets a page',
    "summary": "print(run), or run.about",
    "to": "run.model.to(device)",
    "fit": "deployer.torch.train, or deployer.torch.fit",
}
"""What results of other libraries have, and what does the same here."""


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Fitted):
    """A run of a module: `captured` is its step. A copy from a file has no module.

    `predict`, `evaluate`, `model` and `state_dict` are those of the best epoch of a run with validation samples, and
    else those after the last pass, as `load_into` has them.
    """

    captured: ObjectiveStep | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but the module, and with the forward passes that a library needs."""
        files = self.files if self.captured is None else self.files | forward_files(self.captured)
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"captured": None, "files": files}

    def __getattr__(self, name: str) -> Any:
        """AttributeError for what the results of other libraries have, with what does the same here."""
        hint = f"; try {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    @property
    def model(self) -> nn.Module:
        """A copy of the module with the trained weights and buffers, in evaluation mode."""
        return load_into(copy.deepcopy(self._step.module), self).eval()

    def state_dict(self) -> dict[str, Tensor]:
        """The trained weights and buffers, as the module's `state_dict` has them."""
        return dict(self.model.state_dict())

    def save(self, path: Path | str) -> Path:
        """Write the state dict, which `torch.load` reads, or of a name that ends with .safetensors that format.

        A run that is to go on is kept by `train(..., folder=...)`, and continued by `resume=True`.
        """
        place, content, tensors = Path(path), io.BytesIO(), self.state_dict()
        if place.suffix == ".safetensors":
            write_file(place, safetensors_bytes({name: tensor.numpy() for name, tensor in tensors.items()}))
            return place
        torch.save(tensors, content)
        write_file(place, content.getvalue())
        return place

    def predict(self, *data: Any, **named: Any) -> Tensor:
        """The module's output in evaluation mode for any number of samples, by generated C in this process."""
        weights = self.best | self.best_buffers if has_best(self) else self.weights | self.buffers
        return self._outputs.of(data, named, weights)

    def evaluate(self, *data: Any, metrics: MetricSpecs = ()) -> dict[str, float]:
        """Loss and metrics of samples, `(x, y)` or any form of data that `train` takes, which are read at once."""
        captured, given = self._step, data[0] if len(data) == 1 else data
        objective = captured.objective
        columns = read_columns(given, captured.module, python_warning, targets=ONE if objective.name else ANY)
        arrays = typed(objective, columns.arrays)
        count = len(objective.inputs)
        predicted = self.predict(*arrays[:count])
        return measured(objective, predicted, arrays[count:], metrics, is_tensor=self._outputs.is_tensor)

    @property
    def confusion_matrix(self) -> Array:
        """Counts of validation samples by class, down, and by the class that the final weights give, across.

        OptionProblem where no samples with classes were validated.
        """
        if self.confusion is None:
            hint = "validation=..., and labels; or run.predict(x), and your own comparison"
            raise OptionProblem("the run has validated no samples with classes", hint=hint)
        return self.confusion.matrix

    def export_onnx(self, path: Path | str, batch: int = 1) -> Path:
        """Write the forward pass in evaluation mode with the trained weights, for a batch of this size."""
        place = Path(path)
        write_file(place, forward_of(replace(self._step, module=self.model), batch))
        return place

    @cached_property
    def _outputs(self) -> ModuleOutputs:
        return outputs_of(self._step, Conversion(python_warning))

    @property
    def _step(self) -> ObjectiveStep:
        if self.captured is None:
            raise OptionProblem("a run from a file has no module", hint="load_into(module, run), and the module")
        return self.captured

    @named_parameters
    def package(
        self,
        folder: Path | str,
        *,
        name: str = "",
        weights: str = "",
        optimizer_state: bool = True,
        predict_batch: int = 1,
        core: str = "",
        budgets: Mapping[str, int] | None = None,
        compiled: bool = True,
        force: bool = False,
        canonical_batch: bool = False,
        python: bool = False,
        latent_replay: int = 0,
        replay_policy: str = BALANCED,
        replay_seed: int = 0,
        inputs: str = "",
        predict_after_update: bool = False,
        warn: Warn = python_warning,
    ) -> Library:
        """Write a library of C that goes on from this run, to a folder.

        - `name`: name of the library and prefix of its symbols, by default the folder's.
        - `weights`: those of the "best" epoch or of the "last" pass; by default the best ones of a run with validation
          samples, and else the last ones. `optimizer_state`: the optimizer goes on, too; otherwise it begins anew,
          which saves constants.
        - `predict_batch`: samples of a prediction.
        - `core` of `targets/cores/cores.toml`: also compile for it, and list sizes. `budgets`: bytes by level.
        - `compiled`: compile the library on this machine before it is written. `force` replaces files of others.
        - `canonical_batch` adds gradients up sample by sample, so that bits do not depend on how an update is split.
        - `python`: write a module of Python, too, a class over the shared library that `make shared` builds.
        - `latent_replay`: train the layers behind frozen ones on latents, with a ring of so many records of latents and
          labels; `replay_policy` ("balanced", "reservoir") is what a full ring replaces, `replay_seed` its draws' seed.
        - `inputs` ("int8", "uint8"): type of inputs that the model quantizes at once, which are floats without it.
        - `predict_after_update`: no prediction comes between a pass and its update, so that it may use their memory.

        The learning rates are those that the run began with. Frozen parameters are constants of the library.
        Raises OptionProblem for arguments without meaning, and what planning and compiling raise.
        """
        if self.ended == DIVERGED:
            raise OptionProblem("the run diverged, and has no weights to go on from", hint="a smaller learning rate")
        files = dict(self.files)
        if self.captured is not None:
            files = {n: x for n, x in files.items() if not n.startswith("predict_")}
            files[batch_file(predict_batch)] = forward_of(self.captured, predict_batch)
        replay = ReplayOptions(latent_replay, replay_policy, replay_seed) if latent_replay else None
        options = LibraryOptions(
            name or Path(folder).name, weights, optimizer_state, predict_batch, core, budgets, compiled, force,
            canonical_batch, replay, LibraryForm(inputs, predict_after_update), python,
        )  # fmt: skip
        return write(files, Path(folder), options, warn)


def as_trained(fitted: Fitted, captured: ObjectiveStep) -> Trained:
    """The run with what it needs to be packaged and to predict."""
    return Trained(**{f.name: getattr(fitted, f.name) for f in fields(Fitted)}, captured=captured)
