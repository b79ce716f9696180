"""From a run, or from a module that was not trained here, to a library of C that goes on training."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from deployer.core import target as targets
from deployer.core.errors import DeployerError, DeployerWarning, OptionProblem, Warn, python_warning
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.firmware.bill import check_name
from deployer.firmware.sources import library_rules
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.call import GroupSpec, check_dropout, grad_limits, hyperparameters, takes_mean
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes
from deployer.fitting.fit import Fitted
from deployer.fitting.loop import DIVERGED
from deployer.fitting.runs.run_files import (
    CHECKPOINT,
    GRAPHS,
    RunRecord,
    case_of_files,
    example_passes,
    record_files,
)
from deployer.lr_schedules.windows import ACCUMULATIONS
from deployer.running import output
from deployer.sizing.boards import core_of
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import material
from deployer.torch.data import read_columns
from deployer.torch.objective_step import (
    CaptureOptions,
    ObjectiveStep,
    capture_objective,
    named_objective,
    split_hyperparameters,
    targets_of,
    typed,
)
from deployer.torch.objectives import LossSpec, scores_of
from deployer.torch.own_loop.step_variant import StepOptions, posed_problem
from deployer.torch.rules.parameter_groups import parameter_groups
from deployer.torch.rules.update_rule import OptimizerSpec, update_rule
from deployer.torch.step import StepWalk
from deployer.torch.tracing.trace import trace_forward


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Fitted):
    """A run of a module. `forward` captures the module in evaluation mode for a batch of any size."""

    forward: "Callable[[int], bytes] | None" = field(default=None, compare=False)

    def package(
        self,
        folder: Path | str,
        *,
        name: str,
        weights: str = "",
        optimizer_state: bool = True,
        predict_batch: int = 1,
        core: str = "",
        budgets: Mapping[str, int] | None = None,
        compiled: bool = True,
        force: bool = False,
        warn: Warn = python_warning,
    ) -> Library:
        """Write a library of C that goes on from this run, to a folder.

        - `name`: name of the library and prefix of its symbols.
        - `weights`: those of the "best" epoch or of the "last" pass; by default the best ones of a run with validation
          samples, and else the last ones. `optimizer_state`: the optimizer goes on, too; otherwise it begins anew,
          which saves constants.
        - `predict_batch`: samples of a prediction.
        - `core` of `targets/cores/cores.toml`: also compile for it, and list sizes. `budgets`: bytes by level.
        - `compiled`: compile the library on this machine before it is written. `force` replaces files of others.

        The learning rates are those that the run began with. Frozen parameters are constants of the library.
        Raises OptionProblem for arguments without meaning, and what planning and compiling raise.
        """
        if self.ended == DIVERGED:
            raise OptionProblem("the run diverged, and has no weights to go on from", hint="a smaller learning rate")
        forward = {batch_file(predict_batch): self.forward(predict_batch)} if self.forward else {}
        files = {n: x for n, x in self.files.items() if not n.startswith("predict_")} | forward
        options = LibraryOptions(name, weights, optimizer_state, predict_batch, core, budgets, compiled, force)
        return write(files, Path(folder), options, warn)


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


def as_trained(fitted: Fitted, captured: ObjectiveStep) -> Trained:
    """The run with what it needs to be packaged."""
    given = {f.name: getattr(fitted, f.name) for f in fields(Fitted)}
    return Trained(**given, forward=lambda batch: forward_of(captured, batch))


def write(files: Mapping[str, bytes], folder: Path, options: LibraryOptions, warn: Warn) -> Library:
    """Write the library of a run's files."""
    name, core = check_name(options.name), core_of(options.core) if options.core else None
    target = targets.load(library_rules().target)
    planned = Options(target=target.name, budgets=dict(options.budgets or {}) or None)
    run = case_of_files(files, name, options.weights, options.optimizer_state)
    made = material(run.case, name, planned, run.predictor(options.predict_batch) or "", warn)
    return write_library(made, folder, core, options.compiled, options.force)


def batch_file(batch: int) -> str:
    """The file of the forward pass for a batch."""
    if batch < 1:
        raise OptionProblem(f"predict_batch is {batch}", hint="1 or more")
    return f"predict_{batch}.onnx"


def forward_of(captured: ObjectiveStep, batch: int) -> bytes:
    """The module's output in evaluation mode for batches of this size, as a model with the module's names."""
    objective = captured.objective
    inputs = {n: _resized(captured.batch[n], batch) for n in objective.inputs}

    def scores(module: nn.Module, *tensors: Tensor) -> Tensor:
        return scores_of(objective.output(module, *tensors))

    model: onnx.ModelProto = StepWalk(trace_forward(captured.module, scores, inputs)).outputs()
    return bytes(model.SerializeToString(deterministic=True))


def _resized(tensor: Tensor, batch: int) -> Tensor:
    """So many samples of a batch, from the first one on, and again from there."""
    return tensor[torch.arange(batch) % len(tensor)]


def write_forward(captured: ObjectiveStep, folder: Path, warn: Warn) -> None:
    """Write the forward passes for one sample and for a batch to a run's folder, so that it can be packaged later."""
    size = len(next(iter(captured.batch.values())))
    try:
        files = {batch_file(batch): forward_of(captured, batch) for batch in sorted({1, size})}
    except DeployerError as error:
        facts = [("cause", error.cause)]
        warn(DeployerWarning("the module has no forward pass in evaluation mode for a library", facts))
        return
    with output.opened(folder, files, force=True):
        output.write(folder, files, force=True)


@named_parameters
def package(
    module: nn.Module,
    loss: LossSpec,
    optimizer: OptimizerSpec = "",
    example: Any = None,
    folder: Path | str = "",
    name: str = "",
    *,
    lr: float | None = None,
    momentum: float | None = None,
    weight_decay: float | None = None,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    alpha: float | None = None,
    nesterov: bool = False,
    max_grad_norm: float | None = None,
    max_grad_value: float | None = None,
    param_groups: Sequence[GroupSpec] = (),
    any_rate: bool = False,
    accumulate_grad_batches: int = 1,
    accumulate: str = ACCUMULATIONS[1],
    class_weights: Sequence[float] = (),
    label_smoothing: float | None = None,
    ignore_index: int | None = None,
    delta: float | None = None,
    beta: float | None = None,
    dropout: str = "on",
    seed: int = 0,
    check: bool = True,
    predict_batch: int = 1,
    core: str = "",
    budgets: Mapping[str, int] | None = None,
    compiled: bool = True,
    force: bool = False,
    warn: Warn = python_warning,
) -> Library:
    """Write a library of C that trains the module from its present weights, to a folder; nothing is trained here.

    `example` is a batch, (x, y) or a mapping by the names of arguments: passes of the library are of its size, and the
    library's own example trains on it. The other arguments are those of `compile_step`, and from `predict_batch` on
    those of `Trained.package`. Raises what these raise.
    """
    missing = [n for n, given in {"example": example is None, "folder": not folder, "name": not name}.items() if given]
    if missing:
        raise OptionProblem(f"package lacks {missing[0]}", hint="a batch as (x, y), a folder, and a name")
    is_mean = takes_mean(accumulate, accumulate_grad_batches)
    given = hyperparameters(
        momentum=momentum,
        weight_decay=weight_decay,
        betas=betas,
        eps=eps,
        alpha=alpha,
        nesterov=nesterov,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        delta=delta,
        beta=beta,
    )
    of_loss, of_optimizer = split_hyperparameters(loss, given)
    limits, groups = grad_limits(max_grad_norm, max_grad_value), parameter_groups(module, param_groups)
    rule = update_rule(module, optimizer, lr, of_optimizer, groups, limits, any_rate)
    capture = CaptureOptions(seed, check_dropout(dropout), check, is_mean)
    steps = StepOptions(capture, of_loss, class_weights, accumulate_grad_batches, None, False, warn)
    columns = read_columns(example, module, warn, targets=targets_of(loss), loss=loss if isinstance(loss, str) else "")
    objective = named_objective(module, loss, columns, of_loss, class_weights)
    batch = {n: np.asarray(x) for n, x in zip(objective.data, typed(objective, columns.arrays), strict=True)}
    captured = capture_objective(module, objective, batch, True, capture, warn)
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        problem = posed_problem(captured, rule, steps, Path(scratch))
        paths = [Path(scratch) / graph for graph in GRAPHS]
        problem.write(*paths)
        program, graph = problem.program(*paths), problem.graph
        files = {path.name: path.read_bytes() for path in paths}
    state: dict[str, Array] = {
        n: np.asarray(x, program.tensors[n].type.dtype).reshape(program.tensors[n].type.shape)
        for n, x in graph.weights.items()
    }
    row = [*batch.values(), *([np.ones((), np.float32)] * len(graph.share))]
    share = len(program.data) if graph.share else 0
    record = RunRecord(accumulate_grad_batches, len(program.data), share, dict(graph.original))
    files |= record_files(record, example_passes(accumulate_grad_batches, accumulate_grad_batches, lambda _: row))
    files[CHECKPOINT] = checkpoint_bytes(CheckpointPlace(state=state), {})
    files[batch_file(predict_batch)] = forward_of(captured, predict_batch)
    options = LibraryOptions(name, "", True, predict_batch, core, budgets, compiled, force)
    return write(files, Path(folder), options, warn)
