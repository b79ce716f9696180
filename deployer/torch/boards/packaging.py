"""From a run, or from a module that was not trained here, to a library of C that goes on training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from deployer.core import target as targets
from deployer.core.errors import DeployerError, DeployerWarning, OptionProblem, Warn
from deployer.core.plan import Options
from deployer.core.safe_text import CText
from deployer.firmware.bill import check_name
from deployer.firmware.bindings.python_module import check_module
from deployer.firmware.common import PLAIN_FORM, LibraryForm
from deployer.firmware.replay import ReplayOptions
from deployer.firmware.sources import library_rules
from deployer.fitting.runs.run_files import (
    case_of_files,
)
from deployer.running import output
from deployer.sizing.boards import Core, core_of
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import material
from deployer.torch.objective_step import (
    ObjectiveStep,
)
from deployer.torch.objectives import scores_of
from deployer.torch.step import StepWalk
from deployer.torch.tracing.trace import trace_forward


@dataclass(frozen=True)
class LibraryOptions:
    """Choices of a library; the arguments of `Trained.package`."""

    name: str
    weights: str = ""
    optimizer_state: bool = True
    predict_batch: int = 1
    core: str = ""
    budgets: Mapping[str, int] | None = None
    compiled: bool = True
    force: bool = False
    canonical_batch: bool = False
    replay: ReplayOptions | None = None
    form: LibraryForm = PLAIN_FORM
    python: bool = False

    def checked(self) -> tuple[CText, Core | None]:
        """The library's name and core; OptionProblem for unusable ones."""
        name = check_name(self.name)
        if self.python:
            check_module(name, self.replay is not None)
        return name, core_of(self.core) if self.core else None


def write(files: Mapping[str, bytes], folder: Path, options: LibraryOptions, warn: Warn) -> Library:
    """Write the library of a run's files."""
    name, core = options.checked()
    target = targets.load(library_rules().target)
    budgets = dict(options.budgets or {}) or None
    planned = Options(target=target.name, budgets=budgets, canonical_batch=options.canonical_batch)
    run = case_of_files(files, name, options.weights, options.optimizer_state)
    predictor = run.predictor(options.predict_batch) or ""
    made = material(run.case, name, planned, predictor, warn, replay=options.replay, form=options.form)
    return write_library(made, folder, core, options.compiled, options.force, python=options.python)


def batch_file(batch: int) -> str:
    """The file of the forward pass for a batch."""
    if batch < 1:
        raise OptionProblem(f"predict_batch is {batch}", hint="1 or more")
    return f"predict_{batch}.onnx"


def forward_of(captured: ObjectiveStep, batch: int) -> bytes:
    """The module's output in evaluation mode for batches of this size, as a model with the module's names."""
    objective = captured.objective
    inputs = {n: resized(captured.batch[n], batch) for n in objective.inputs}

    def scores(module: nn.Module, *tensors: Tensor) -> Tensor:
        return scores_of(objective.output(module, *tensors))

    model: onnx.ModelProto = StepWalk(trace_forward(captured.module, scores, inputs)).outputs()
    return bytes(model.SerializeToString(deterministic=True))


def forward_files(captured: ObjectiveStep) -> dict[str, bytes]:
    """The forward passes for one sample and for a batch as files."""
    size = len(next(iter(captured.batch.values())))
    return {batch_file(batch): forward_of(captured, batch) for batch in sorted({1, size})}


def resized(tensor: Tensor, batch: int) -> Tensor:
    """So many samples of a batch, from the first one on, and again from there."""
    return tensor[torch.arange(batch) % len(tensor)]


def write_forward(captured: ObjectiveStep, folder: Path, warn: Warn) -> None:
    """Write the forward passes for one sample and for a batch to a run's folder, so that it can be packaged later."""
    try:
        files = forward_files(captured)
    except DeployerError as error:
        facts = [("cause", error.cause)]
        warn(DeployerWarning("the module has no forward pass in evaluation mode for a library", facts))
        return
    with output.opened(folder, files, force=True):
        output.write(folder, files, force=True)
