"""Chains of fully connected layers, which the dense models differ in by widths and loss alone."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from .generator import Array, save_forward, sgd_case, uniform


def dense(path: Path, widths: Sequence[int], labels: Sequence[str], batch: int, seed: int, relu: bool) -> Path:
    """Write Gemm layers `<label>.weight` [out, in], `<label>.bias` [out], with Relu between if asked for."""
    generator = np.random.default_rng(seed)
    nodes, weights, x = [], {}, "input"
    for label, (fan_in, fan_out) in zip(labels, pairwise(widths), strict=True):
        weights[f"{label}.weight"] = uniform(generator, fan_in, fan_out, fan_in)
        weights[f"{label}.bias"] = uniform(generator, fan_in, fan_out)
        last = label == labels[-1]
        operands = [x, f"{label}.weight", f"{label}.bias"]
        x = "output" if last else f"{label}_out"
        nodes.append(helper.make_node("Gemm", operands, [x], label, transB=1))
        if relu and not last:
            nodes.append(helper.make_node("Relu", [x], [f"{label}_relu"], f"{label}_relu"))
            x = f"{label}_relu"
    return save_forward(path, nodes, weights, {"input": (batch, widths[0])}, {"output": (batch, widths[-1])})


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
    return sgd_case(model, "mse", data={"input": x, "target": x}, **{"learning_rate": 1.0} | options).train
