"""Cases for libraries: a dense net, a convolution with a norm, a dropout and rates by groups, and an adapter."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from deployer.training.groups import read_group
from deployer.training.train_graph import build_train_graph
from DeployTest.models import simple_mlp

BATCH, CLASSES, PASSES = 2, 4, 4
INPUT = 'in "put*/'
IMAGE = (BATCH, 2, 6, 6)


def dense_case(folder: Path) -> Path:
    """Write the dense net's case."""
    return simple_mlp.generate(folder)


def normed_model(path: Path, read: str = INPUT) -> Path:
    """Write the forward model that reads `read`; its names C, Markdown and a shell would take for their own."""
    draw = np.random.default_rng(7)
    arrays = {
        '*/ "first"': draw.standard_normal((3, 2, 3, 3)).astype(np.float32),
        "scale": np.ones(3, np.float32),
        "bias": np.zeros(3, np.float32),
        "mean": np.zeros(3, np.float32),
        "var": np.ones(3, np.float32),
        "a|`b`\n%s": draw.standard_normal((CLASSES, 3)).astype(np.float32),
        "ratio": np.array(0.25, np.float32),
        "trains": np.array(True),
    }
    first, last = '*/ "first"', "a|`b`\n%s"
    norm = ("h", "scale", "bias", "mean", "var")
    nodes = [
        helper.make_node("Conv", (read, first), ("h",), "conv", pads=(1, 1, 1, 1)),
        helper.make_node("BatchNormalization", norm, ("n", "mean_after", "var_after"), "norm", training_mode=1),
        helper.make_node("Relu", ("n",), ("r",), "relu"),
        helper.make_node("GlobalAveragePool", ("r",), ("p",), "pool"),
        helper.make_node("Flatten", ("p",), ("f",), "flat"),
        helper.make_node("Dropout", ("f", "ratio", "trains"), ("d",), "drop"),
        helper.make_node("Gemm", ("d", last), ("scores",), "dense", transB=1),
    ]
    ends = [(read, IMAGE), ("scores", (BATCH, CLASSES))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "normed", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def normed_case(folder: Path) -> Path:
    """Write the case of the net with a norm: two passes per update, running statistics, weights that decay."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(8)
    data = {
        INPUT: draw.standard_normal((PASSES, *IMAGE)).astype(np.float32),
        "labels": draw.integers(0, CLASSES, (PASSES, BATCH)),
    }
    report = build_train_graph(
        normed_model(folder / "normed.onnx"),
        "cross_entropy",
        "adamw",
        0.01,
        "",
        folder,
        n_accum=2,
        data=data,
        settings={"weight-decay": 0.3},
        groups=[read_group("first:lr=0.003")],
        statistics=True,
    )
    return report.train


def adapted_case(folder: Path) -> Path:
    """Write the case of a few frozen weights with a trained detour of rank one; two passes per update."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(9)
    shapes = {"base": (2, 3), "down": (1, 3), "up": (2, 1)}
    arrays = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ("x", "base"), ("straight",), "frozen", transB=1),
        helper.make_node("Gemm", ("x", "down"), ("narrow",), "first", transB=1),
        helper.make_node("Gemm", ("narrow", "up"), ("detour",), "second", transB=1),
        helper.make_node("Add", ("straight", "detour"), ("scores",), "sum"),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 3)), ("scores", (1, 2)))]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "adapted", values[:1], values[1:], constants)
    model = folder / "adapted.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    data = {"x": draw.standard_normal((PASSES, 1, 3)).astype(np.float32), "labels": draw.integers(0, 2, (PASSES, 1))}
    return build_train_graph(model, "cross_entropy", "adamw", 0.01, "down|up", folder, n_accum=2, data=data).train
