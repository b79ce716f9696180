"""Forward models of any batch, with the samples that they train on."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value

Array = np.ndarray[Any, Any]
Net = Callable[[int], Model]


def drawn(*shape: int) -> Array:
    """Normal numbers of half the deviation, the same for a shape."""
    return (0.5 * np.random.default_rng([len(shape), *shape]).standard_normal(shape)).astype(np.float32)


def _model(batch: int, x: tuple[int, ...], nodes: list[Any], weights: Mapping[str, Array], element: int) -> Model:
    constants = [constant(name, array) for name, array in weights.items()]
    return Model(nodes, (value("x", (batch, *x), element),), (value("y", None),), constants)


def dense(batch: int) -> Model:
    """Two layers; the first sums more than a block of products."""
    nodes = [
        node("Gemm", ("x", "w1", "b1"), ("h",), transB=1),
        node("Relu", ("h",), ("r",)),
        node("Gemm", ("r", "w2", "b2"), ("y",), transB=1),
    ]
    weights = {"w1": drawn(24, 10), "b1": drawn(24), "w2": drawn(5, 24), "b2": drawn(5)}
    return _model(batch, (10,), nodes, weights, TensorProto.FLOAT)


def negated(batch: int) -> Model:
    """Two layers, of which the second has no weight but zeros: gradients of the first are -0."""
    nodes = [
        node("Gemm", ("x", "w1", "b1"), ("h",), transB=1),
        node("Neg", ("h",), ("n",)),
        node("Gemm", ("n", "w2"), ("y",), transB=1),
    ]
    weights = {"w1": drawn(6, 10), "b1": drawn(6), "w2": np.zeros((5, 6), np.float32)}
    return _model(batch, (10,), nodes, weights, TensorProto.FLOAT)


def convolutional(batch: int) -> Model:
    """Convolutions, one of them depthwise and one of lines, and norms over layers and groups."""
    shapes = {"rows": (0, 6, 49), "flat": (0, -1)}
    weights = {
        "w1": drawn(6, 2, 3, 3),
        "b1": drawn(6),
        "w2": drawn(6, 1, 3, 3),
        "w3": drawn(4, 6, 3),
        "w4": drawn(5, 24),
    }
    weights |= {name: drawn(6, 9, 9) for name in ("scale1", "shift1")} | {
        name: drawn(6) for name in ("scale2", "shift2")
    }
    nodes = [
        node("Conv", ("x", "w1", "b1"), ("c1",), pads=[1, 1, 1, 1]),
        node("LayerNormalization", ("c1", "scale1", "shift1"), ("n1",), axis=1),
        node("Relu", ("n1",), ("r1",)),
        node("Conv", ("r1", "w2"), ("c2",), group=6),
        node("GroupNormalization", ("c2", "scale2", "shift2"), ("n2",), num_groups=2),
        node("Reshape", ("n2", "rows"), ("l2",)),
        node("Conv", ("l2", "w3"), ("c3",), strides=[8]),
        node("Reshape", ("c3", "flat"), ("f3",)),
        node("Gemm", ("f3", "w4"), ("y",), transB=1),
    ]
    model = _model(batch, (2, 9, 9), nodes, weights, TensorProto.FLOAT)
    shaping = [constant(name, np.array(shape, np.int64)) for name, shape in shapes.items()]
    return Model(nodes, model.inputs, model.outputs, [*model.initializers, *shaping], opsets=(("", 21),))


def recurrent(batch: int) -> Model:
    """An LSTM over time, whose batch is not the first axis."""
    weights = {"w": drawn(1, 24, 4), "r": drawn(1, 24, 6), "b": drawn(1, 48), "w2": drawn(5, 6)}
    nodes = [
        node("Transpose", ("x",), ("t",), perm=[1, 0, 2]),
        node("LSTM", ("t", "w", "r", "b"), ("", "h", ""), hidden_size=6),
        node("Reshape", ("h", "shape"), ("f",)),
        node("Gemm", ("f", "w2"), ("y",), transB=1),
    ]
    model = _model(batch, (7, 4), nodes, weights, TensorProto.FLOAT)
    return Model(nodes, model.inputs, model.outputs, [*model.initializers, constant("shape", np.array([batch, 6]))])


def tied(batch: int) -> Model:
    """A table that is read by numbers, and whose transpose gives the scores."""
    nodes = [
        node("Gather", ("table", "x"), ("e",)),
        node("Tanh", ("e",), ("h",)),
        node("Transpose", ("table",), ("head",), perm=[1, 0]),
        node("MatMul", ("h", "head"), ("s",)),
        node("Transpose", ("s",), ("y",), perm=[0, 2, 1]),
    ]
    return _model(batch, (6,), nodes, {"table": drawn(5, 8)}, INT64)


NEGATED = "negated"
NETS: dict[str, tuple[Net, tuple[int, ...], tuple[int, ...]]] = {
    "dense": (dense, (10,), ()),
    "convolutional": (convolutional, (2, 9, 9), ()),
    "recurrent": (recurrent, (7, 4), ()),
    "tied": (tied, (6,), (6,)),
    NEGATED: (negated, (10,), ()),
}
"""For each net the model of a batch, and the shapes of a sample and of its labels, which are of five classes."""


def samples(name: str, count: int) -> dict[str, Array]:
    """So many samples with labels."""
    _, shape, labels = NETS[name]
    draw = np.random.default_rng(count)
    x = draw.integers(0, 5, (count, *shape)) if name == "tied" else draw.standard_normal((count, *shape))
    return {"x": x.astype(np.int64 if name == "tied" else np.float32), "labels": draw.integers(0, 5, (count, *labels))}
