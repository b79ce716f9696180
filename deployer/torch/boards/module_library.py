"""`package`: from a module that was not trained here to a library of C that trains it, or that only predicts."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.operator import Array
from deployer.firmware.common import LibraryForm
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.call import GroupSpec, check_dropout, grad_limits, hyperparameters, takes_mean
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes
from deployer.fitting.runs.run_files import CHECKPOINT, GRAPHS, RunRecord, example_passes, record_files
from deployer.lr_schedules.windows import ACCUMULATIONS
from deployer.sizing.library_folder import Library
from deployer.torch.boards.packaging import LibraryOptions, batch_file, forward_of, write
from deployer.torch.boards.prediction_library import write_prediction_library
from deployer.torch.call_forms import example_second
from deployer.torch.data import read_columns
from deployer.torch.loss_choice import ClassWeights, choose_loss
from deployer.torch.objective_step import CaptureOptions, ObjectiveStep, capture_objective, named_objective, typed
from deployer.torch.objectives import LossSpec
from deployer.torch.own_loop.step_variant import StepOptions, posed_problem
from deployer.torch.rules.parameter_groups import parameter_groups
from deployer.torch.rules.update_rule import OptimizerSpec, update_rule
from deployer.training.problem import Problem


@example_second
@named_parameters
def package(
    module: nn.Module,
    loss: LossSpec | None = None,
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
    class_weights: ClassWeights = (),
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
    canonical_batch: bool = False,
    inputs: str = "",
    predict_after_update: bool = False,
    python: bool = False,
    warn: Warn = python_warning,
) -> Library:
    """Write a library of C to a folder: one that trains the module from its present weights, or one that only predicts.

    With a `loss`, `example` is a batch, (x, y) or a mapping by the names of arguments: passes of the library are of its
    size, and the library's own example trains on it. Without one, `package(module, x, folder)` writes the forward pass
    in evaluation mode, whose weights are constants. Nothing is trained here. `name` is by default the folder's. The
    other arguments are those of `compile_step`, and from `predict_batch` on those of `Trained.package`. Raises what
    these raise.
    """
    missing = [n for n, given in {"example": example is None, "folder": not folder}.items() if given]
    if missing:
        raise OptionProblem(f"package lacks {missing[0]}", hint="inputs x, or with a loss a batch (x, y), and a folder")
    called = name or Path(folder).name
    options = LibraryOptions(
        called, "", True, predict_batch, core, budgets, compiled, force, canonical_batch,
        form=LibraryForm(inputs, predict_after_update), python=python,
    )  # fmt: skip
    if loss is None and canonical_batch:
        raise OptionProblem("canonical_batch has no effect without gradients", hint="a loss, or leave it out")
    if loss is None:
        return write_prediction_library(module, example, Path(folder), options, warn)
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
    chosen, of_optimizer = choose_loss(loss, given, class_weights)
    limits, groups = grad_limits(max_grad_norm, max_grad_value), parameter_groups(module, param_groups)
    rule = update_rule(module, optimizer, lr, of_optimizer, groups, limits, any_rate)
    if rule.begun:
        facts = [("parameters with a state", str(len(rule.begun)))]
        hint = "a new optimizer; or run.package and step.package, which go on from what training has kept"
        raise OptionProblem("the optimizer has made updates, and its state is not taken over", facts, hint)
    capture = CaptureOptions(seed, check_dropout(dropout), check, is_mean)
    steps = StepOptions(capture, accumulate_grad_batches, None, False, warn)
    columns = read_columns(example, module, warn, targets=chosen.targets, loss=chosen.name)
    objective = named_objective(module, chosen, columns)
    batch = {n: np.asarray(x) for n, x in zip(objective.data, typed(objective, columns.arrays), strict=True)}
    captured = capture_objective(module, objective, batch, True, capture, warn)
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        problem = posed_problem(captured, rule, steps, Path(scratch))
    return write_step_library(
        captured, problem, problem.graph.weights, accumulate_grad_batches, Path(folder), options, warn
    )


def write_step_library(
    captured: ObjectiveStep,
    problem: Problem,
    state: Mapping[str, Array],
    accumulate: int,
    folder: Path,
    options: LibraryOptions,
    warn: Warn,
) -> Library:
    """Write the library of a captured step that begins with this state, by the names of the program."""
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        paths = [Path(scratch) / name for name in GRAPHS]
        problem.write(*paths)
        program, graph = problem.program(*paths), problem.graph
        files = {path.name: path.read_bytes() for path in paths}
    kinds = {n: program.tensors[n].type for n in state}
    begun = {n: np.asarray(x, kinds[n].dtype).reshape(kinds[n].shape) for n, x in state.items()}
    batch = [x.numpy() for x in captured.batch.values()]
    row = [*batch, *([np.ones((), np.float32)] * len(graph.share))]
    share = len(program.data) if graph.share else 0
    record = RunRecord(accumulate, len(program.data), share, dict(graph.original))
    files |= record_files(record, example_passes(accumulate, accumulate, lambda _: row))
    files[CHECKPOINT] = checkpoint_bytes(CheckpointPlace(state=begun), {})
    files[batch_file(options.predict_batch)] = forward_of(captured, options.predict_batch)
    return write(files, folder, options, warn)
