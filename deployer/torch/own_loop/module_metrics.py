"""Loss and metrics of samples, by the outputs that a module or its compiled forward pass gives."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deployer.core.errors import DatasetMismatch, OptionProblem, Warn, python_warning
from deployer.core.operator import Array
from deployer.fitting.argument_names import named_parameters
from deployer.fitting.call import hyperparameters
from deployer.fitting.metrics import MetricSpecs, metrics_of_loss, number_of, read_metrics
from deployer.torch.call_forms import data_apart
from deployer.torch.data import read_columns
from deployer.torch.loss_choice import ClassWeights, choose_loss
from deployer.torch.objective_step import named_objective, typed
from deployer.torch.objectives import LossSpec, Objective
from deployer.torch.own_loop.evaluation import ModuleOutputs
from deployer.torch.samples.conversion import Conversion
from deployer.torch.weights import on_tensors
from deployer.training.step_problem import scored_loss

BATCH = 32
"""Most samples that the compiled forward pass takes at a time, where nothing else says how many."""


@data_apart
@named_parameters
def evaluate(
    module: nn.Module,
    data: Any,
    loss: LossSpec | None = None,
    *,
    metrics: MetricSpecs = (),
    top: Sequence[int] = (),
    batch_size: int | None = None,
    class_weights: ClassWeights = (),
    label_smoothing: float | None = None,
    ignore_index: int | None = None,
    delta: float | None = None,
    beta: float | None = None,
    warn: Warn = python_warning,
) -> dict[str, float]:
    """Loss and metrics of a module with its present weights in evaluation mode, as `train` measures validation samples.

    `data`, `loss`, `metrics` and `top` are those of `train`, and so are `class_weights`, `label_smoothing`,
    `ignore_index`, `delta` and `beta`, which a loss by name takes; the data are read at once. The forward pass is
    compiled and runs in this process; the numbers are those of all samples as one batch, whatever `batch_size` it takes
    at a time, by default that of a loader. The module stays as it is.

    Raises OptionProblem for arguments without meaning, and what reading, capturing and compiling raise.
    """
    if loss is None:
        raise OptionProblem("evaluate lacks a loss, by which outputs and targets are read", hint="loss= that of train")
    given = hyperparameters(label_smoothing=label_smoothing, ignore_index=ignore_index, delta=delta, beta=beta)
    chosen, strange = choose_loss(loss, given, class_weights)
    if strange:
        raise OptionProblem(f"{next(iter(strange))} is no setting of the loss", hint="leave it out")
    columns = read_columns(data, module, warn, targets=chosen.targets, loss=chosen.name)
    objective = named_objective(module, chosen, columns)
    arrays, count = typed(objective, columns.arrays), len(objective.inputs)
    counts = [len(x) for x in arrays]
    if len(set(counts)) > 1 or not counts[0]:
        raise DatasetMismatch(f"data has different numbers of samples: {counts}", hint="as many of each")
    size = batch_size or getattr(data, "batch_size", None) or BATCH
    if size < 1:
        raise OptionProblem(f"batch_size is {size}", hint="1 or more")
    batch = {n: torch.from_numpy(x[:size]) for n, x in zip(objective.data, arrays, strict=True)}
    outputs = ModuleOutputs(module, objective, batch, (), Conversion(warn))
    predicted = outputs.of(arrays[:count], {}, {})
    return measured(objective, predicted, arrays[count:], metrics, top, is_tensor=outputs.is_tensor)


def measured(
    objective: Objective,
    outputs: Tensor,
    targets: Sequence[Array],
    metrics: MetricSpecs = (),
    top: Sequence[int] = (),
    *,
    is_tensor: bool = True,
) -> dict[str, float]:
    """Loss and metrics of a module's outputs, `is_tensor` where it gives nothing beside them.

    Of a loss that is a function, its value for all samples as one batch, and metrics that are functions.
    OptionProblem where nothing else is known.
    """
    choice = read_metrics(metrics, top)
    if objective.name:
        scored = scored_loss(objective.name, objective.settings, objective.weights, "target")
        found = metrics_of_loss(scored, read_metrics(on_tensors(choice)))
        found.check()
        return found.compare(outputs.numpy(), targets[0]).values
    if objective.function is None or not is_tensor or len(targets) != 1:
        cause = "the loss is not one of output and target alone, and nothing but the loss of training is known"
        raise OptionProblem(cause, hint="predict(x), and your own comparison")
    if choice.names:
        cause = f"nothing measures {choice.names[0]!r}: the loss is a function, and what it compares is not known"
        raise OptionProblem(cause, hint="a loss by its name or of torch.nn, or a function of (outputs, targets)")
    target = torch.from_numpy(targets[0])
    target = target.bool() if objective.targets[0] in objective.bools else target
    own = {"loss": objective.function, **choice.functions}
    with torch.no_grad():
        return {name: number_of(name, function(outputs, target)) for name, function in own.items()}
