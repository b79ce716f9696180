"""Remedy of `deployer fits` that gives the layers in front of the last one 8 bits, with the accuracy on samples."""

import argparse
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onnx import GraphProto, TensorProto

from deployer.commands import requests
from deployer.core.errors import UserError, Warn
from deployer.core.ir import TensorType
from deployer.core.operator import losses
from deployer.firmware.byte_inputs import takes_bytes
from deployer.fitting.data.sources import read_samples
from deployer.fitting.metrics import named_measure
from deployer.frontend.model_file import load_model
from deployer.frontend.quantized.model import is_quantized
from deployer.operators.quantized.requantization import INT8
from deployer.pipeline import Case
from deployer.quantization.options import Quantization
from deployer.quantization.quantize import Measure, ModelToQuantize
from deployer.quantization.report import QuantizedModel
from deployer.sizing.boards import Board
from deployer.sizing.fits import Remedy, tried
from deployer.training.batches import fitted_samples
from deployer.training.samples import drawn_inputs

TITLE = "8 bits in front of the last layer"


def quantized_remedies(
    a: argparse.Namespace,
    loss: str,
    trained: Sequence[str],
    build: Callable[[dict[str, object]], Case],
    boards: Sequence[Board],
    folder: Path,
    warn: Warn,
) -> Iterator[Remedy]:
    """The remedy, where layers in front of the last one, or of those of `--trainable`, have weights of floats.

    `trained` are the names of what trains, `build` makes the training case of changed arguments, and `--data` has the
    samples of accuracy and of ranges; random ones give the sizes alone. `folder` gets the quantized model.
    """
    graph = load_model(a.model).graph
    if a.trainable:
        floats = [t.name for t in graph.initializer if t.data_type == TensorProto.FLOAT and t.dims]
        frozen = [name for name in floats if name not in trained]
    else:
        last = _last_layer(graph, trained)
        frozen = [name for name in trained if name not in last]
    if not frozen or any(map(is_quantized, graph.node)):
        return
    regex = "^(" + "|".join(map(re.escape, frozen)) + ")$"
    out = folder / "quantized.onnx"
    words = ["deployer", "quantize", a.model.name, "--data", str(a.data or "FILE"), "--freeze", regex, "-o", out.name]
    try:
        found = _quantized(a, loss, regex, out, warn)
        case = build({"model": out})
    except UserError as problem:
        yield Remedy(TITLE, shlex.join(words), refused=problem.cause)
        return
    form = requests.form_of(a)
    if takes_bytes(case.program):
        form = replace(form, inputs=form.inputs or INT8)
    remedy = tried(TITLE, "", lambda: case, boards, warn, requests.replay_of(a), form)
    then = f"deployer fits {out.name}" + f" --inputs {form.inputs}" * bool(form.inputs)
    metrics = {name: (before, found.metrics[name]) for name, before in found.float_metrics.items()} if a.data else {}
    yield replace(remedy, options=f"{shlex.join(words)}; {then}", metrics=metrics)


def _last_layer(graph: GraphProto, trained: Sequence[str]) -> set[str]:
    """The trained weights that the last node with any of them reads."""
    for node in reversed(graph.node):
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
        samples = fitted_samples(drawn_inputs(made.program), made.inputs)
    return made.write(samples, out, measure)
