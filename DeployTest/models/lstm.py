"""LSTM: one cell over a sequence of rows, unrolled, and a classifier of its last state."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.generator import Value, forward_graph, layer, main, save_forward, training_case, uniform

STEPS, FEATURES, HIDDEN, CLASSES = 8, 16, 24, 10
RATE = 0.1


def generate(out: Path, *, batch: int = 1, seed: int = 0, steps: int = STEPS, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    draw, graph = np.random.default_rng(seed), forward_graph("lstm", input=(batch, steps, FEATURES))

    def node(op: str, label: str, *inputs: gs.Tensor, **attrs: Any) -> Value:
        return layer(graph, op, label, inputs, **attrs)

    def parts(op: str, label: str, x: Value, count: int) -> list[Value]:
        outputs = [gs.Variable(f"{label}_{i}") for i in range(count)]
        graph.nodes.append(gs.Node(op, label, {"axis": 1}, [x], outputs))
        return outputs

    rows = HIDDEN + FEATURES
    weight = gs.Constant("cell.weight", uniform(draw, HIDDEN, rows, 4 * HIDDEN))
    bias = gs.Constant("cell.bias", uniform(draw, HIDDEN, 4 * HIDDEN))
    state: Value = gs.Constant("zeros", np.zeros((batch, HIDDEN), np.float32))
    memory: Value | None = None
    shape = gs.Constant("row", np.array([batch, FEATURES], np.int64))
    for t, x in enumerate(parts("Split", "steps", graph.inputs[0], steps)):
        both = node("Concat", f"t{t}.both", node("Reshape", f"t{t}.x", x, shape), state, axis=1)
        gates = parts("Split", f"t{t}.gates", node("Gemm", f"t{t}.sums", both, weight, bias), 4)
        let_in, let_out, keep = (node("Sigmoid", f"t{t}.gate{i}", gates[i]) for i in range(3))
        new = node("Mul", f"t{t}.new", let_in, node("Tanh", f"t{t}.cell", gates[3]))
        memory = node("Add", f"t{t}.memory", new, node("Mul", f"t{t}.kept", keep, memory)) if memory else new
        state = node("Mul", f"t{t}.state", let_out, node("Tanh", f"t{t}.out", memory))
    final = [
        gs.Constant("fc.weight", uniform(draw, HIDDEN, HIDDEN, CLASSES)),
        gs.Constant("fc.bias", uniform(draw, HIDDEN, CLASSES)),
    ]
    scores = node("Gemm", "fc", state, *final)
    model = save_forward(out / "lstm.onnx", graph, scores, (batch, CLASSES))
    return training_case(
        model, "cross_entropy", r"(weight|bias)$", seed=seed + 1, **{"learning_rate": RATE} | options
    ).train


if __name__ == "__main__":
    main(generate)
