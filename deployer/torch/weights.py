"""Trained weights in the module that they are of, and metrics of tensors."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from onnx import numpy_helper
from torch import nn

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.fitting.fit import Fitted
from deployer.fitting.metrics import MetricChoice, MetricFunction, MetricSpecs, read_metrics
from deployer.frontend.model_file import load_model
from deployer.torch.tracing.module_state import held_by
from deployer.training.step_problem import read_record

WEIGHTS = ("best", "last")
"""Weights of a run that a module can be given."""


def on_tensors(given: MetricSpecs) -> MetricSpecs:
    """The metrics, with functions that are called with tensors."""

    def of(function: MetricFunction) -> MetricFunction:
        return lambda *arrays: function(*(torch.from_numpy(np.array(array)) for array in arrays))

    choice = read_metrics(given)
    return MetricChoice(choice.names, {name: of(function) for name, function in choice.functions.items()})


def has_best(trained: Fitted) -> bool:
    """Whether the best epoch of a run is that of validation samples."""
    return any(row.metrics for row in trained.rows)


def load_into(module: nn.Module, trained: Fitted, weights: str = "") -> nn.Module:
    """Give the module the trained weights, buffers and numbers of batches, in place.

    `weights` are those of the "best" epoch or of the "last" pass; by default the best ones of a run with validation
    samples, and else the last ones. KeyError, and nothing changed, where the module has no parameter or buffer of a
    name; OptionProblem for another word.
    """
    if weights not in ("", *WEIGHTS):
        raise OptionProblem(f"weights is {weights!r}", hint=f"one of {', '.join(WEIGHTS)}")
    best = weights == WEIGHTS[0] or (not weights and has_best(trained))
    held = held_by(module)
    given = (trained.best, trained.best_buffers) if best else (trained.weights, trained.buffers)
    for known, arrays, what in zip((held.parameters, held.states), given, ("parameters", "buffers"), strict=True):
        missing = sorted(arrays.keys() - known.keys())
        if missing:
            raise KeyError(f"the module has no {what} {missing}")
    held.write(given[0] | given[1])
    return module


@contextlib.contextmanager
def as_begun(module: nn.Module, model: Path) -> Iterator[None]:
    """The module with the weights that the run of a captured step began with; what it had where that fails.

    A run that goes on takes its weights from its checkpoint, whatever the module has. Where the file is no step of the
    module's tensors nothing is changed.
    """
    held, begun = held_by(module), initial_tensors(model)
    known = held.parameters | held.states
    if any(name not in known or known[name][0].get().numel() != array.size for name, array in begun.items()):
        begun = {}
    kept = {name: known[name][0].get().detach().clone() for name in begun}
    held.write(begun)
    try:
        yield
    except BaseException:
        held.write(kept)
        raise


def initial_tensors(model: Path) -> dict[str, Array]:
    """The trained parameters, states and counters that a saved step begins with; none where there is no such file."""
    record = read_record(model) if model.is_file() else None
    if record is None:
        return {}
    names = record.gradients.keys() | record.states.keys()
    found = {x.name: numpy_helper.to_array(x) for x in load_model(model).graph.initializer if x.name in names}
    return found | {name: np.array(count) for name, count in record.counts.items()}
