"""Transformer: one encoder block (or more) over 16 tokens of 32 numbers, their mean, and a classifier of 10 classes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.generator import Value, forward_graph, layer, main, save_forward, training_case, uniform

TOKENS, WIDTH, HIDDEN, CLASSES = 16, 32, 64, 10
RATE = 0.1


def generate(
    out: Path,
    *,
    batch: int = 1,
    seed: int = 0,
    layers: int = 1,
    tokens: int = TOKENS,
    width: int = WIDTH,
    hidden: int = HIDDEN,
    **options: Any,
) -> Path:
    """Write a Transformer case to `out`; returns its *_train folder."""
    generator, graph = np.random.default_rng(seed), forward_graph("transformer", input=(batch, tokens, width))

    def node(op: str, label: str, *inputs: gs.Tensor, **attrs: Any) -> Value:
        return layer(graph, op, label, inputs, **attrs)

    def norm(label: str, x: Value) -> Value:
        weight = gs.Constant(f"{label}.weight", (1 + 0.1 * generator.standard_normal(width)).astype(np.float32))
        bias = gs.Constant(f"{label}.bias", (0.1 * generator.standard_normal(width)).astype(np.float32))
        return node("LayerNormalization", label, x, weight, bias, axis=-1, epsilon=1e-5)

    def linear(label: str, x: Value, fan_in: int, fan_out: int) -> Value:
        weight = gs.Constant(f"{label}.weight", uniform(generator, fan_in, fan_in, fan_out))
        bias = gs.Constant(f"{label}.bias", uniform(generator, fan_in, fan_out))
        return node("Add", label, node("MatMul", f"{label}.product", x, weight), bias)

    def block(x: Value, label: str) -> Value:
        normed = norm(f"{label}norm1", x)
        query, key, value = (linear(f"{label}{name}", normed, width, width) for name in ("query", "key", "value"))
        scores = node("MatMul", f"{label}scores", query, node("Transpose", f"{label}turned", key, perm=[0, 2, 1]))
        scale = gs.Constant(f"{label}scale", np.array(width**-0.5, np.float32))
        attention = node("Softmax", f"{label}attention", node("Mul", f"{label}scaled", scores, scale), axis=-1)
        mixed = node("MatMul", f"{label}mixed", attention, value)
        x = node("Add", f"{label}residual1", linear(f"{label}project", mixed, width, width), x)
        expanded = linear(f"{label}expand", norm(f"{label}norm2", x), width, hidden)
        gelu = node("Gelu", f"{label}gelu", expanded, domain="com.microsoft")
        return node("Add", f"{label}residual2", linear(f"{label}contract", gelu, hidden, width), x)

    x = graph.inputs[0]
    for number in range(layers):
        x = block(x, f"block{number}." if number else "")
    x = node("ReduceMean", "mean", norm("norm3", x), axes=[1], keepdims=0)
    weight = gs.Constant("fc.weight", uniform(generator, width, width, CLASSES))
    bias = gs.Constant("fc.bias", uniform(generator, width, CLASSES))
    scores = layer(graph, "Gemm", "fc", [x, weight, bias], "output")
    model = save_forward(out / "transformer.onnx", graph, scores, (batch, CLASSES))
    return training_case(
        model, "cross_entropy", r"weight$|bias$", seed=seed + 1, **{"learning_rate": RATE} | options
    ).train


if __name__ == "__main__":
    main(generate)
