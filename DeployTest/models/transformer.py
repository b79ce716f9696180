"""Transformer: one encoder block over 16 tokens of 32 numbers, their mean, and a classifier of 10 classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from .generator import Array, main, save_forward, sgd_case, uniform

TOKENS, WIDTH, HIDDEN, CLASSES = 16, 32, 64, 10
RATE = 0.1


def generate(out: Path, *, batch: int = 1, seed: int = 0, **options: Any) -> Path:
    """Write a Transformer case to `out`; returns its *_train folder."""
    generator, nodes = np.random.default_rng(seed), list[NodeProto]()
    weights: dict[str, Array] = {"scale": np.array(WIDTH**-0.5, np.float32)}

    def node(op: str, label: str, inputs: Sequence[str], **attrs: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{label}_out"], label, **attrs))
        return f"{label}_out"

    def norm(label: str, x: str) -> str:
        weights[f"{label}.weight"] = (1 + 0.1 * generator.standard_normal(WIDTH)).astype(np.float32)
        weights[f"{label}.bias"] = (0.1 * generator.standard_normal(WIDTH)).astype(np.float32)
        return node("LayerNormalization", label, [x, f"{label}.weight", f"{label}.bias"], axis=-1, epsilon=1e-5)

    def linear(label: str, x: str, fan_in: int, fan_out: int) -> str:
        weights[f"{label}.weight"] = uniform(generator, fan_in, fan_in, fan_out)
        weights[f"{label}.bias"] = uniform(generator, fan_in, fan_out)
        return node("Add", label, [node("MatMul", f"{label}.product", [x, f"{label}.weight"]), f"{label}.bias"])

    x = norm("norm1", "input")
    query, key, value = (linear(label, x, WIDTH, WIDTH) for label in ("query", "key", "value"))
    scores = node("MatMul", "scores", [query, node("Transpose", "turned", [key], perm=[0, 2, 1])])
    attention = node("Softmax", "attention", [node("Mul", "scaled", [scores, "scale"])], axis=-1)
    mixed = node("MatMul", "mixed", [attention, value])
    x = node("Add", "residual1", [linear("project", mixed, WIDTH, WIDTH), "input"])
    hidden = node("Gelu", "gelu", [linear("expand", norm("norm2", x), WIDTH, HIDDEN)], domain="com.microsoft")
    x = node("Add", "residual2", [linear("contract", hidden, HIDDEN, WIDTH), x])
    x = node("ReduceMean", "mean", [norm("norm3", x)], axes=[1], keepdims=0)
    weights["fc.weight"], weights["fc.bias"] = (
        uniform(generator, WIDTH, WIDTH, CLASSES),
        uniform(generator, WIDTH, CLASSES),
    )
    nodes.append(helper.make_node("Gemm", [x, "fc.weight", "fc.bias"], ["output"], "fc"))
    shapes = {"input": (batch, TOKENS, WIDTH)}, {"output": (batch, CLASSES)}
    model = save_forward(out / "transformer.onnx", nodes, weights, *shapes)
    return sgd_case(model, "cross_entropy", r"weight$|bias$", seed=seed + 1, **{"learning_rate": RATE} | options).train


if __name__ == "__main__":
    main(generate)
