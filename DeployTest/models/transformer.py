"""Transformer: one encoder block over 16 tokens of 32 numbers, their mean, and a classifier of 10 classes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .generator import Value, forward_graph, layer, main, save_forward, sgd_case, uniform

TOKENS, WIDTH, HIDDEN, CLASSES = 16, 32, 64, 10
RATE = 0.1


def generate(out: Path, *, batch: int = 1, seed: int = 0, **options: Any) -> Path:
    """Write a Transformer case to `out`; returns its *_train folder."""
    generator, graph = np.random.default_rng(seed), forward_graph("transformer", input=(batch, TOKENS, WIDTH))
    [tokens] = graph.inputs

    def node(op: str, label: str, *inputs: gs.Tensor, **attrs: Any) -> Value:
        return layer(graph, op, label, inputs, **attrs)

    def norm(label: str, x: Value) -> Value:
        weight = gs.Constant(f"{label}.weight", (1 + 0.1 * generator.standard_normal(WIDTH)).astype(np.float32))
        bias = gs.Constant(f"{label}.bias", (0.1 * generator.standard_normal(WIDTH)).astype(np.float32))
        return node("LayerNormalization", label, x, weight, bias, axis=-1, epsilon=1e-5)

    def linear(label: str, x: Value, fan_in: int, fan_out: int) -> Value:
        weight = gs.Constant(f"{label}.weight", uniform(generator, fan_in, fan_in, fan_out))
        bias = gs.Constant(f"{label}.bias", uniform(generator, fan_in, fan_out))
        return node("Add", label, node("MatMul", f"{label}.product", x, weight), bias)

    x = norm("norm1", tokens)
    query, key, value = (linear(label, x, WIDTH, WIDTH) for label in ("query", "key", "value"))
    scores = node("MatMul", "scores", query, node("Transpose", "turned", key, perm=[0, 2, 1]))
    scaled = node("Mul", "scaled", scores, gs.Constant("scale", np.array(WIDTH**-0.5, np.float32)))
    mixed = node("MatMul", "mixed", node("Softmax", "attention", scaled, axis=-1), value)
    x = node("Add", "residual1", linear("project", mixed, WIDTH, WIDTH), tokens)
    hidden = node("Gelu", "gelu", linear("expand", norm("norm2", x), WIDTH, HIDDEN), domain="com.microsoft")
    x = node("Add", "residual2", linear("contract", hidden, HIDDEN, WIDTH), x)
    x = node("ReduceMean", "mean", norm("norm3", x), axes=[1], keepdims=0)
    weight = gs.Constant("fc.weight", uniform(generator, WIDTH, WIDTH, CLASSES))
    bias = gs.Constant("fc.bias", uniform(generator, WIDTH, CLASSES))
    scores = layer(graph, "Gemm", "fc", [x, weight, bias], "output")
    model = save_forward(out / "transformer.onnx", graph, scores, (batch, CLASSES))
    return sgd_case(model, "cross_entropy", r"weight$|bias$", seed=seed + 1, **{"learning_rate": RATE} | options).train


if __name__ == "__main__":
    main(generate)
