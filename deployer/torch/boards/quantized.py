"""`quantize`: from a module to an ONNX file whose frozen part has 8 bits, and whose head can be trained."""

import copy
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from deployer.core.errors import OptionProblem, Warn, python_warning
from deployer.core.operator import losses
from deployer.fitting.metrics import MetricSpecs, named_measure
from deployer.frontend.model_file import load_model
from deployer.quantization.options import METHODS, PERCENT, Quantization
from deployer.quantization.quantize import ModelToQuantize
from deployer.quantization.report import QuantizedModel
from deployer.running.output import replace_file
from deployer.torch.capture import Captured, capture
from deployer.torch.data import read_columns
from deployer.training.batches import fitted_samples
from deployer.training.step_problem import with_trained

BATCH = 32
"""Most samples that a pass of the model has, where nothing else is said."""


def quantize(
    module: nn.Module,
    data: Any,
    path: Path | str,
    *,
    freeze: str | Sequence[str] | None = None,
    loss: str = "",
    metrics: MetricSpecs = (),
    method: str = METHODS[0],
    percentile: float = PERCENT,
    per_channel: bool = True,
    batch_size: int | None = None,
    force: bool = False,
    warn: Warn = python_warning,
) -> QuantizedModel:
    """Write a module's forward pass in evaluation mode as an ONNX file, quantized as `deployer quantize` does.

    `data` are those of `train`, or inputs alone as an array; ranges come from them. `freeze` has names of submodules or
    parameters, or is an expression found in names of parameters; without it the whole module is quantized. A loss by
    its name, and `metrics`, measure both models. The file's batch is `batch_size`, by default that of a loader. The
    module stays as it is. `deployer.fit`, and the commands `fit` and `package`, take the file.

    OptionProblem for a path that is there unless `force`, and what reading, capturing and quantizing raise.
    """
    out = Path(path)
    if out.exists() and not force:
        raise OptionProblem(f"{out} exists", hint="another path, or force=True to overwrite it")
    if loss and loss not in losses():
        raise OptionProblem(f"there is no loss {loss!r}", hint=f"one of {', '.join(losses())}")
    alone = hasattr(data, "shape")
    if alone and loss:
        raise OptionProblem("the data have no target for the loss", hint="(x, y), or no loss")
    columns = read_columns((data, data) if alone else data, module, warn, loss=loss)
    count = len(columns.inputs)
    size = batch_size or min(getattr(data, "batch_size", None) or BATCH, len(columns.arrays[0]))
    batch = [torch.from_numpy(np.ascontiguousarray(x[:size])) for x in columns.arrays[:count]]
    captured = capture(copy.deepcopy(module).eval(), batch, dropout="off", check=False)
    how = Quantization(_expression(freeze, captured), method, percentile, per_channel)
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        model = Path(scratch) / "module.onnx"
        onnx.save(captured.model, model)
        made = ModelToQuantize(model, how)
        target, measure = named_measure(loss, made.output, metrics) if loss else ({}, None)
        types = {**made.inputs, **target}
        arrays = dict(zip(types, columns.arrays, strict=False))
        result = made.write(fitted_samples(arrays, types), out, measure)
    _tell_trained(out, captured)
    return result


def _expression(freeze: str | Sequence[str] | None, captured: Captured) -> str | None:
    """An expression for parameters below these names; OptionProblem for a name that none has."""
    if freeze is None or isinstance(freeze, str):
        return freeze
    names = [tensor.name for tensor in captured.model.graph.initializer]
    for name in freeze:
        if not any(each == name or each.startswith(f"{name}.") for each in names):
            tops = dict.fromkeys(each.partition(".")[0] for each in captured.parameters)
            cause = f"freeze has {name!r}, below which the module has no parameter"
            raise OptionProblem(cause, [("has", ", ".join(tops))], "names of submodules or of parameters")
    return rf"^(?:{'|'.join(map(re.escape, freeze))})(?:\.|$)"


def _tell_trained(path: Path, captured: Captured) -> None:
    """Note in the file which parameters of the module are left to be trained."""
    model = load_model(path)
    left: Mapping[str, None] = dict.fromkeys(tensor.name for tensor in model.graph.initializer)
    told = with_trained(model, [name for name in captured.parameters if name in left])
    replace_file(path, told.SerializeToString(deterministic=True))
