"""From samples of a module to its captured and checked training step: what every way of training begins with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import DatasetMismatch, DeployerWarning, Warn
from deployer.core.operator import Array, losses
from deployer.core.traits.training import Loss
from deployer.torch.check import check_step
from deployer.torch.data import ANY, NONE, ONE, Columns
from deployer.torch.objectives import LossSpec, Objective, objective_of
from deployer.torch.step import CapturedStep, capture_step
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import Given, split_settings

CHECKED = "the captured step was compared with PyTorch in float64"
UNCHECKED = "the captured step was not compared with PyTorch, as asked"


@dataclass(frozen=True)
class CaptureOptions:
    """Choices of a capture: the `seed` of random numbers, whether dropout drops, whether the step is checked.

    With `mean` an update takes the mean over its passes.
    """

    seed: int = 0
    drops: bool = True
    check: bool = True
    mean: bool = False


@dataclass(frozen=True, eq=False)
class ObjectiveStep:
    """Captured step of a module and a loss, with the batch it was captured with and a remark for the report."""

    module: nn.Module
    objective: Objective
    step: CapturedStep
    batch: dict[str, Tensor]
    remark: str
    seed: int

    @property
    def loss(self) -> str:
        """The loss by name, or that of a module that returns it."""
        return self.objective.name or OWN_LOSS

    def save(self, path: Path) -> Path:
        """Write the step, with what metrics need to know of the loss."""
        objective, names = self.objective, dict(zip(self.objective.data, self.step.data, strict=False))
        targets = tuple(names[n] for n in objective.targets)
        known = {"loss": objective.name, "settings": dict(objective.settings), "class_weights": objective.weights}
        return self.step.save(path, **known, targets=targets)


def targets_of(loss: LossSpec) -> str:
    """Number of data arrays that the loss takes."""
    return ANY if not isinstance(loss, str) else NONE if loss == OWN_LOSS else ONE


def split_hyperparameters(loss: LossSpec, given: Given) -> tuple[dict[str, float], dict[str, float]]:
    """The settings of the loss, and those that it has not, which are the optimizer's."""
    _, rest = split_settings(given, losses().get(loss) if isinstance(loss, str) else None)
    return {n: v for n, v in given.items() if n not in rest}, rest


def named_objective(
    module: nn.Module, loss: LossSpec, columns: Columns, settings: Given, class_weights: Sequence[float]
) -> Objective:
    """The objective of a loss, with its settings, for columns of samples."""
    operator, targets = losses().get(loss) if isinstance(loss, str) else None, columns.targets
    declared = operator.role(Loss) if operator is not None else None
    if declared is not None and len(targets) == 1:
        targets = (declared.target,)
    return objective_of(
        module,
        loss,
        columns.inputs,
        targets,
        keywords=columns.keywords,
        settings=settings,
        class_weights=class_weights,
    )


def typed(objective: Objective, arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays, with an integer target as float32 if the loss compares floats."""
    declared = losses()[objective.name].role(Loss) if objective.name else None
    floats = declared is not None and declared.class_axis is None
    return [x.astype(np.float32) if floats and i == len(arrays) - 1 else x for i, x in enumerate(arrays)]


def capture_objective(
    module: nn.Module,
    objective: Objective,
    batch: Mapping[str, Array],
    ignores: bool,
    options: CaptureOptions,
    warn: Warn,
) -> ObjectiveStep:
    """Capture the step for batches of these shapes, and compare it with PyTorch unless told otherwise.

    Unless it `ignores`, no label is below zero. Raises what `capture_step` and `check_step` raise.
    """
    tensors = {n: torch.from_numpy(x) for n, x in batch.items()}
    seed = options.seed
    step = capture_step(module, objective, tensors, seed=seed, share=options.mean, drops=options.drops, ignores=ignores)
    remark = UNCHECKED
    if options.check:
        try:
            found = check_step(step, module, objective, tensors, seed=seed)
        except IndexError as error:
            facts = [("PyTorch says", " ".join(str(error).split())[:200])]
            hint = "class numbers from 0 to one less than there are classes, or ignore_index"
            raise DatasetMismatch("the first batch holds a number that chooses nothing", facts, hint) from error
        remark = f"{CHECKED}: at most {100 * found.share:.1g} % of the bound ({found.tensor})"
    if step.unused:
        facts = [("not trained", ", ".join(step.unused))]
        warn(DeployerWarning("parameters of the module get no gradient", facts))
    return ObjectiveStep(module, objective, step, tensors, remark, seed)
