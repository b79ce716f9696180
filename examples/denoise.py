"""A vibration signal without its noise: dense layers trained with the mean squared error.

Writes `model.onnx` and `data.npz` into the folder named on the command line.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH, HIDDEN, BATCH, PASSES = 64, 32, 8, 256


def model(generator: np.random.Generator) -> onnx.ModelProto:
    """[8, 64] -> 32 -> 64, with a Relu between them."""
    arrays = {
        "narrow_w": generator.normal(0, LENGTH**-0.5, (LENGTH, HIDDEN)).astype(np.float32),
        "narrow_b": np.zeros(HIDDEN, np.float32),
        "wide_w": generator.normal(0, HIDDEN**-0.5, (HIDDEN, LENGTH)).astype(np.float32),
        "wide_b": np.zeros(LENGTH, np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["signal", "narrow_w", "narrow_b"], ["code"]),
        helper.make_node("Relu", ["code"], ["active"]),
        helper.make_node("Gemm", ["active", "wide_w", "wide_b"], ["clean"]),
    ]
    graph = helper.make_graph(
        nodes,
        "denoise",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, [BATCH, LENGTH])],
        [helper.make_tensor_value_info("clean", TensorProto.FLOAT, [BATCH, LENGTH])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


def samples(generator: np.random.Generator) -> dict[str, np.ndarray]:
    """One mini-batch per pass: noisy signals and clean ones, both [256, 8, 64]."""
    time = np.arange(LENGTH) / LENGTH
    phase = generator.uniform(0, 2 * np.pi, (PASSES, BATCH, 1))
    clean = np.sin(2 * np.pi * 2 * time + phase) + 0.5 * np.sin(2 * np.pi * 6 * time + 2 * phase)
    noisy = clean + generator.normal(0, 0.4, clean.shape)
    return {"signal": noisy.astype(np.float32), "target": clean.astype(np.float32)}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(2)
    onnx.save(model(draw), folder / "model.onnx")
    np.savez(folder / "data.npz", **samples(draw))
