"""Chains of fully connected layers, which the dense models differ in by widths and loss alone."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .generator import Array, forward_graph, layer, save_forward, training_case, uniform


def dense(path: Path, widths: Sequence[int], labels: Sequence[str], batch: int, seed: int, relu: bool) -> Path:
    """Write Gemm layers `<label>.weight` [out, in], `<label>.bias` [out], with Relu between if asked for."""
    generator, graph = np.random.default_rng(seed), forward_graph(path.stem, input=(batch, widths[0]))
    [x] = graph.inputs
    for label, (fan_in, fan_out) in zip(labels, pairwise(widths), strict=True):
        weight = gs.Constant(f"{label}.weight", uniform(generator, fan_in, fan_out, fan_in))
        bias = gs.Constant(f"{label}.bias", uniform(generator, fan_in, fan_out))
        last = label == labels[-1]
        x = layer(graph, "Gemm", label, [x, weight, bias], "output" if last else "", transB=1)
        if relu and not last:
            x = layer(graph, "Relu", f"{label}_relu", [x], f"{label}_relu")
    return save_forward(path, graph, x, (batch, widths[-1]))


def autoencoder(
    out: Path,
    name: str,
    widths: Sequence[int],
    labels: Sequence[str],
    *,
    batch: int,
    samples: int,
    seed: int,
    **options: Any,
) -> Path:
    """The case of a chain with Relu between that learns its own input; returns the *_train folder."""
    model = dense(out / f"{name}.onnx", widths, labels, batch, seed, relu=True)
    x: Array = np.random.default_rng(seed + 1).standard_normal((samples, batch, widths[0])).astype(np.float32)
    return training_case(model, "mse", data={"input": x, "target": x}, **{"learning_rate": 1.0} | options).train
