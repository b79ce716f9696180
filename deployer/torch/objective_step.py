"""From samples of a module to its captured and checked training step: what every way of training begins with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, Warn
from deployer.core.operator import Array, loss_role, losses
from deployer.torch.check import check_step
from deployer.torch.data import Columns
from deployer.torch.loss_choice import LossChoice
from deployer.torch.objectives import Objective, named_loss, objective_of
from deployer.torch.step import CapturedStep, capture_step
from deployer.torch.tracing.imported import import_tracer
from deployer.torch.tracing.module_state import held_by
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import split_settings

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
        return self.step.save(path, **known, targets=targets, counts=self.counts)

    @property
    def counts(self) -> dict[str, int]:
        """The module's present counters of passes, such as the numbers of batches of running statistics."""
        held = held_by(self.module)
        return {name: int(held.state(name)) for name, step in self.step.counts.items() if step}


def named_objective(module: nn.Module, loss: LossChoice, columns: Columns) -> Objective:
    """The objective of a loss for columns of samples.

    OptionProblem for weights of samples beside a loss without a name.
    """
    targets, own = columns.targets, _takes(loss, columns)
    if columns.weighted and not own:
        example = 'target["weights"] in the function, with data={"x": ..., "labels": ..., "weights": ...}'
        cause = "sample_weight needs a loss by its name, and this one is a function or the module's"
        raise OptionProblem(cause, [("losses", ", ".join(losses()))], f"one of these, or {example}")
    if own and loss.name in losses():
        targets = (loss_role(loss.name).target, *targets[1:])
    named = isinstance(loss.given, str)
    found = objective_of(
        module,
        loss.given,
        columns.inputs,
        targets,
        keywords=columns.keywords,
        settings=loss.settings if named else {},
        class_weights=loss.class_weights if named else (),
    )
    found = replace(found, bools=columns.bools)
    if not own or (named and not columns.weighted):
        return found
    attributes, _ = split_settings(loss.settings, losses()[loss.name])
    known = replace(found, name=loss.name, settings=attributes, weights=loss.class_weights)
    if not columns.weighted:
        return known
    return replace(known, weighted=True, function=named_loss(loss.name, attributes, loss.class_weights, True))


def _takes(loss: LossChoice, columns: Columns) -> bool:
    """Whether the loss is one by name that compares the target as it is: PyTorch's functions take more than that."""
    if not loss.name:
        return False
    target = columns.arrays[len(columns.inputs)] if len(columns.arrays) > len(columns.inputs) else None
    return isinstance(loss.given, str) or not loss.takes_labels or (target is not None and target.dtype.kind in "iub")


def typed(objective: Objective, arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays, with an integer target as float32 if the loss compares floats, and weights of samples too."""
    declared = loss_role(objective.name) if objective.name else None
    floats = declared is not None and declared.class_axis is None
    floating = [len(objective.inputs)] * floats + [len(arrays) - 1] * objective.weighted
    return [x.astype(np.float32) if i in floating else x for i, x in enumerate(arrays)]


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
    import_tracer()
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
