"""Transformer: one encoder block (or more) over 16 tokens of 32 numbers, their mean, and a classifier of 10 classes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.encoder import Encoder
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
    encoder = Encoder(graph, generator, (batch, tokens, width))

    def block(x: Value, label: str) -> Value:
        mixed = encoder.attention(label, encoder.norm(f"{label}norm1", x))
        x = encoder.node("Add", f"{label}residual1", mixed, x)
        fed = encoder.feed(label, encoder.norm(f"{label}norm2", x), hidden)
        return encoder.node("Add", f"{label}residual2", fed, x)

    x = graph.inputs[0]
    for number in range(layers):
        x = block(x, f"block{number}." if number else "")
    x = encoder.node("ReduceMean", "mean", encoder.norm("norm3", x), axes=[1], keepdims=0)
    weight = gs.Constant("fc.weight", uniform(generator, width, width, CLASSES))
    bias = gs.Constant("fc.bias", uniform(generator, width, CLASSES))
    scores = layer(graph, "Gemm", "fc", [x, weight, bias], "output")
    model = save_forward(out / "transformer.onnx", graph, scores, (batch, CLASSES))
    return training_case(
        model, "cross_entropy", r"weight$|bias$", seed=seed + 1, **{"learning_rate": RATE} | options
    ).train


if __name__ == "__main__":
    main(generate, sizes={"layers": 1, "tokens": TOKENS, "width": WIDTH, "hidden": HIDDEN})
