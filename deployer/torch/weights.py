"""Trained weights in the module that they are of, and metrics of tensors."""

import numpy as np
import torch
from torch import nn

from deployer.core.errors import OptionProblem
from deployer.fitting.fit import Fitted
from deployer.fitting.metrics import MetricChoice, MetricFunction, MetricSpecs, read_metrics

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
    tensors = dict(module.named_parameters()), dict(module.named_buffers())
    given = (trained.best, trained.best_buffers) if best else (trained.weights, trained.buffers)
    for known, arrays, what in zip(tensors, given, ("parameters", "buffers"), strict=True):
        missing = sorted(arrays.keys() - known.keys())
        if missing:
            raise KeyError(f"the module has no {what} {missing}")
    with torch.no_grad():
        for known, arrays in zip(tensors, given, strict=True):
            for name, array in arrays.items():
                known[name].copy_(torch.from_numpy(array.reshape(known[name].shape).copy()))
    return module
