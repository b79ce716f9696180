"""Training cases that tests build: generated models, small models, and the gradients of a training graph."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx

from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.frontend.dataset import Dataset, data_inputs, load
from deployer.training.train_graph import CaseReport, build_train_graph
from deployer.verify.program import verify_program
from deployer.verify.reference import Memory, run_graph
from DeployTest.models import autoencoder, deep_autoencoder, digits, dscnn, mobilenet_v1, resnet8, simple_mlp
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.tolerances import assert_close

Array = np.ndarray[Any, Any]
STEP = 1e-5
"""Half width of the central differences: their error is then about 1e-11 for values of order 1."""

DENSE: dict[str, tuple[ModuleType, dict[str, Any]]] = {
    "simple_mlp": (simple_mlp, {}),
    "simple_mlp_batch": (simple_mlp, {"batch": 3, "n_accum": 3, "samples": 2}),
    "autoencoder": (autoencoder, {}),
    "autoencoder_accum": (autoencoder, {"n_accum": 2, "n_batches": 8}),
    "deep_autoencoder": (deep_autoencoder, {}),
    "deep_autoencoder_batch": (deep_autoencoder, {"batch": 4}),
}
ACCUMULATED = {"n_accum": 4, "n_batches": 8}
CONVOLUTIONAL: dict[str, tuple[ModuleType, dict[str, Any]]] = {
    "digits": (digits, {}),
    "dscnn": (dscnn, {}),
    "dscnn_batch": (dscnn, {"batch": 4}),
    "dscnn_accum": (dscnn, ACCUMULATED),
    "dscnn_plain": (dscnn, {"seed": 1, "batch_norm": False, "batch": 4, **ACCUMULATED}),
    "resnet8": (resnet8, {}),
    "resnet8_batch": (resnet8, {"batch": 4, **ACCUMULATED}),
    "resnet8_plain": (resnet8, {"batch_norm": False, **ACCUMULATED}),
    "mobilenet_v1": (mobilenet_v1, {}),
    "mobilenet_v1_batch": (mobilenet_v1, {"seed": 5, "batch": 4}),
    "mobilenet_v1_accum": (mobilenet_v1, {"seed": 1, **ACCUMULATED}),
    "mobilenet_v1_plain": (mobilenet_v1, {"batch_norm": False}),
}
"""Seeds under which no Relu flips when the initial weights move by a rounding: sums differ between machines."""
GENERATED = DENSE | CONVOLUTIONAL


def generate(name: str, folder: Path) -> Path:
    """The *_train folder of a generated case."""
    module, options = GENERATED[name]
    return module.generate(folder, **options)


def opened(train: Path) -> tuple[Program, Dataset]:
    """A written case through the compiler's own front end."""
    source = parse.read_graphs(train / "network.onnx", parse.optimizer_dir(train) / "network.onnx")
    program = check.check_program(source, data_inputs=data_inputs(train))
    verify_program(program)
    return program, load(train, program)


def one_pass(program: Program, dataset: Dataset, weights: Mapping[str, Array]) -> Memory:
    """The float64 state after one pass that overwrites the accumulation buffers."""
    memory = Memory(program, np.float64)
    memory.update(weights)
    memory.update({n: np.full(program.tensors[n].type.shape, np.nan) for n in program.accumulators})
    memory.update(zip(program.data, dataset.sample(0), strict=True))
    memory[program.flag] = np.array([1])
    run_graph(program.graphs[0], memory)
    return memory


def gradients(program: Program, dataset: Dataset) -> dict[str, Array]:
    """The gradient of the loss with respect to every trained parameter, from the written backward nodes."""
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}
    memory = one_pass(program, dataset, weights)
    return {n: memory[f"{n}_grad.accumulation.buffer"].copy() for n in program.updated.values()}


def check_differences(program: Program, dataset: Dataset, entries: int = 3) -> None:
    """Compare the largest entry of each gradient and some others with central differences in float64."""
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}

    def loss_with(name: str, index: tuple[int, ...], step: float) -> float:
        moved = {**weights, name: weights[name].copy()}
        moved[name][index] += step
        return one_pass(program, dataset, moved)[program.outputs[0]].item()

    generator = np.random.default_rng(0)
    for name, gradient in gradients(program, dataset).items():
        flat = {int(np.abs(gradient).argmax()), *generator.integers(0, gradient.size, entries - 1).tolist()}
        at = [tuple(map(int, np.unravel_index(i, gradient.shape))) for i in sorted(flat)]
        slopes = [(loss_with(name, i, STEP) - loss_with(name, i, -STEP)) / (2 * STEP) for i in at]
        assert_close(f"gradient of {name}", np.array([gradient[i] for i in at]), np.array(slopes))
        assert np.abs(gradient).max() > 0, f"the gradient of {name} is zero"


def random(*shape: int, seed: int = 0) -> Array:
    """Values away from the places where Relu and Pow are not smooth."""
    return np.random.default_rng([seed, *shape]).uniform(0.25, 1.0, shape).astype(np.float32)


def built(
    folder: Path, model: Model, loss: str = "mse", trainable: str = "", optimizer: str = "sgd", **options: Any
) -> CaseReport:
    """The case of a small model."""
    path = model.save(folder / "model.onnx")
    return build_train_graph(path, loss, optimizer, 0.1, trainable, folder, **options)


def graph_of(report: CaseReport) -> onnx.GraphProto:
    """The written training graph."""
    return onnx.load(str(report.train / "network.onnx")).graph


def produced(report: CaseReport) -> set[str]:
    """The names of everything that the written training graph computes."""
    return {o for n in graph_of(report).node for o in n.output}


def mlp(*extra: onnx.NodeProto, initializers: Mapping[str, Array] | None = None, **parts: Any) -> Model:
    """x [2,3] -> h = x w1^T [2,4] -> further nodes to y; w2 [5,4] comes too."""
    constants = {"w1": random(4, 3), "w2": random(5, 4), **(initializers or {})}
    listed = [constant(n, a) for n, a in constants.items()]
    parts = {"outputs": (value("y", None),), "inputs": (value("x", (2, 3)),), **parts}
    return Model((node("Gemm", ("x", "w1"), ("h",), "first", transB=1), *extra), initializers=listed, **parts)


LAST = node("Gemm", ("r", "w2"), ("y",), "last", transB=1)
