"""Remedy of `deployer fits` that gives the layers in front of the last one 8 bits, with the accuracy on samples."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from deployer.commands import requests
from deployer.core.errors import UserError, Warn
from deployer.core.ir import TensorType
from deployer.core.operator import losses
from deployer.firmware.byte_inputs import takes_bytes
from deployer.firmware.common import LibraryForm
from deployer.fitting.data.sources import read_samples
from deployer.fitting.metrics import named_measure
from deployer.frontend.model_file import load_model
from deployer.pipeline import Case
from deployer.quantization.options import Quantization
from deployer.quantization.quantize import Measure, ModelToQuantize
from deployer.quantization.report import QuantizedModel
from deployer.sizing.boards import Board
from deployer.sizing.fits import Remedy, tried
from deployer.training.batches import fitted_samples
from deployer.training.order import Samples

TITLE = "8 bits in front of the last layer"
DRAWN = 4
"""Batches of random samples where none are given; the sizes do not depend on them."""
Changes = dict[str, object]


def quantized_remedies(
    a: argparse.Namespace,
    loss: str,
    trained: Sequence[str],
    build: Callable[[Changes], Case],
    boards: Sequence[Board],
    form: LibraryForm,
    folder: Path,
    warn: Warn,
) -> Iterator[Remedy]:
    """The remedy, where layers in front of the last one hold weights of floats; none where a replay is asked for.

    `trained` are the names of what trains, `build` makes the training case of changed arguments, and `--data` has the
    samples of accuracy and of ranges; random ones give the sizes alone. `folder` gets the quantized model.
    """
    last = _last_layer(a.model, trained)
    frozen = [name for name in trained if name not in last]
    if not frozen or a.latent_replay:
        return
    regex = "^(" + "|".join(map(re.escape, frozen)) + ")$"
    out = folder / "quantized.onnx"
    words = [f"deployer quantize {a.model.name} --data {a.data or 'FILE'} --freeze '{regex}' -o {out.name}"]
    try:
        found = _quantized(a, loss, regex, out, warn)
        case = build({"model": out, "trainable": ""})
    except UserError as problem:
        yield Remedy(TITLE, words[0], refused=problem.cause)
        return
    if takes_bytes(case.program):
        form = replace(form, inputs=form.inputs or "int8")
    remedy = tried(TITLE, "", lambda: case, boards, warn, None, form)
    words.append(f"deployer fits {out.name}" + f" --inputs {form.inputs}" * bool(form.inputs))
    metrics = {name: (before, found.metrics[name]) for name, before in found.float_metrics.items()} if a.data else {}
    yield replace(remedy, options="; ".join(words), metrics=metrics)


def _last_layer(path: Path, trained: Sequence[str]) -> set[str]:
    """The trained weights that the last node with any of them reads."""
    for node in reversed(load_model(path).graph.node):
        if found := set(trained) & set(node.input):
            return found
    return set()


def _quantized(a: argparse.Namespace, loss: str, regex: str, out: Path, warn: Warn) -> QuantizedModel:
    made = ModelToQuantize(a.model, Quantization(regex), requests.axes_of(a))
    target: Mapping[str, TensorType] = {}
    measure: Measure | None = None
    if a.data:
        if loss in losses():
            target, measure = named_measure(loss, made.output)
        samples = read_samples(a.data, {**made.inputs, **target}, "data", warn=warn, targets=tuple(target))
    else:
        samples = _drawn(made.inputs)
    return made.write(samples, out, measure)


def _drawn(inputs: Mapping[str, TensorType]) -> Samples:
    """Random samples of a few batches."""
    draw = np.random.default_rng(0)
    shapes = {name: (DRAWN, *kind.shape) for name, kind in inputs.items()}
    arrays = {
        name: draw.standard_normal(shapes[name], np.float32)
        if kind.dtype == "float32"
        else np.zeros(shapes[name], kind.dtype)
        for name, kind in inputs.items()
    }
    return fitted_samples(arrays, inputs)
