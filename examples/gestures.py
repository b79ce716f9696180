"""Four gestures from windows of a three-axis accelerometer: a small convolutional net, trained from scratch.

Writes `model.onnx` and `data.npz` into the folder named on the command line. The signals are made, not measured: each
gesture is an oscillation with a frequency and a direction of its own, with noise and a random phase.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WINDOW, BATCH, PASSES = 64, 4, 192
DIRECTIONS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]) / np.array([[1], [1], [1], [2**0.5]])
FREQUENCIES = np.array([2, 3, 5, 8])  # oscillations per window


def model(generator: np.random.Generator) -> onnx.ModelProto:
    """[4, 3, 1, 64] -> two convolutions of stride 2 -> the mean over time -> [4, 4] logits."""
    shapes = {"conv1_w": (8, 3, 1, 5), "conv2_w": (16, 8, 1, 5), "dense_w": (16, 4)}
    fans = {"conv1_w": 3 * 5, "conv2_w": 8 * 5, "dense_w": 16}
    arrays = {n: generator.normal(0, (2 / fans[n]) ** 0.5, shape).astype(np.float32) for n, shape in shapes.items()}
    arrays |= {n: np.zeros(c, np.float32) for n, c in (("conv1_b", 8), ("conv2_b", 16), ("dense_b", 4))}
    window = {"strides": [1, 2], "pads": [0, 2, 0, 2]}
    nodes = [
        helper.make_node("Conv", ["window", "conv1_w", "conv1_b"], ["c1"], **window),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "conv2_w", "conv2_b"], ["c2"], **window),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "dense_w", "dense_b"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "gestures",
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, [BATCH, 3, 1, WINDOW])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, 4])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


def samples(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """One mini-batch per pass: windows [192, 4, 3, 1, 64] and labels [192, 4]."""
    labels = generator.integers(0, len(FREQUENCIES), (PASSES, BATCH))
    time = np.arange(WINDOW) / WINDOW
    phase = generator.uniform(0, 2 * np.pi, (PASSES, BATCH, 1))
    wave = np.sin(2 * np.pi * FREQUENCIES[labels][..., None] * time + phase)
    windows = DIRECTIONS[labels][..., None] * wave[:, :, None]
    windows = windows + generator.normal(0, 0.3, windows.shape)
    return {"window": windows[:, :, :, None].astype(np.float32), "labels": labels}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    onnx.save(model(draw), folder / "model.onnx")
    np.savez(folder / "data.npz", **samples(draw))
