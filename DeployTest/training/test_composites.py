"""Operators that are made of others, or of gradients of others, trained: normalizations, reductions, products."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import Node, TensorType
from deployer.core.operator import registry
from deployer.testing.gradients import forward_and_backward
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import built, check_differences, graph_of, opened, random
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]

IMAGE = (2, 4, 2, 3)
PARTS: dict[str, tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]] = {
    "volume": (
        [
            node("Reshape", ("h", "volume"), ("v0",)),
            node("Conv", ("v0", "wc", "bc"), ("v1",), pads=[1] * 6),
            node("MaxPool", ("v1",), ("v2",), kernel_shape=[2, 2, 2], pads=[1, 0, 1, 0, 1, 0]),
            node("AveragePool", ("v2",), ("v3",), kernel_shape=[3, 3, 3], pads=[1] * 6),
            node("ConvTranspose", ("v3", "wd"), ("v4",), pads=[1] * 6),
            node("Reshape", ("v4", "image"), ("y",)),
        ],
        (
            constant("volume", np.array((2, 2, 2, 2, 3))),
            constant("wc", random(2, 2, 3, 3, 3, seed=5)),
            constant("bc", random(2, seed=6)),
            constant("wd", random(2, 2, 3, 3, 3, seed=7)),
        ),
    ),
    "instance": (
        [node("InstanceNormalization", ("h", "si", "bi"), ("y",))],
        (constant("si", random(4)), constant("bi", random(4, seed=1))),
    ),
    "group": (
        [node("GroupNormalization", ("h", "sg", "bg"), ("y",), num_groups=2)],
        (constant("sg", random(4, seed=2)), constant("bg", random(4, seed=3))),
    ),
    "rms": ([node("RMSNormalization", ("h", "sr"), ("y",), axis=-2)], (constant("sr", random(2, 3)),)),
    "mean_variance": ([node("MeanVarianceNormalization", ("h",), ("y",), axes=[0, 2])], ()),
    "norm": ([node("LpNormalization", ("h",), ("y",), axis=1)], ()),
    "lrn": ([node("LRN", ("h",), ("y",), size=3, alpha=0.5)], ()),
    "einsum": ([node("Einsum", ("h", "we"), ("y",), equation="nchw,wd->nchd")], (constant("we", random(3, 3)),)),
    "transposed": (
        [node("ConvTranspose", ("h", "wt", "bt"), ("y",), strides=[2, 1], group=2)],
        (constant("wt", random(4, 2, 2, 2)), constant("bt", random(4, seed=4))),
    ),
    "tile": ([node("Tile", ("h", "times"), ("y",))], (constant("times", np.array([1, 2, 1, 3])),)),
    "log_softmax": ([node("LogSoftmax", ("h",), ("y",), axis=1)], ()),
    "pool": ([node("GlobalMaxPool", ("h",), ("y",))], ()),
    "resize": (
        [node("Resize", ("h", "", "factors"), ("y",))],
        (constant("factors", np.array([1, 1, 2, 3], np.float32)),),
    ),
    "linear": (
        [node("Resize", ("h", "", "", "sizes"), ("y",), mode="linear", coordinate_transformation_mode="align_corners")],
        (constant("sizes", np.array([2, 4, 5, 2])),),
    ),
    "cubic": (
        [node("Resize", ("h", "", "shares"), ("y",), mode="cubic")],
        (constant("shares", np.array([1, 1, 2.5, 0.7], np.float32)),),
    ),
    "picked": (
        [node("Resize", ("h", "", "", "sizes"), ("y",), nearest_mode="floor")],
        (constant("sizes", np.array([2, 4, 3, 2])),),
    ),
    "grid": (
        [node("GridSample", ("h", "g"), ("y",), padding_mode="border")],
        (constant("g", random(2, 3, 2, 2, seed=8)),),
    ),
    "grid_outside": (
        [node("GridSample", ("h", "far"), ("y",), align_corners=1)],
        (constant("far", random(2, 3, 2, 2, seed=9) * np.float32(2)),),
    ),
    "trilu": ([node("Trilu", ("h",), ("t",), upper=0), node("Cast", ("t",), ("y",), to=onnx.TensorProto.FLOAT)], ()),
    "depth": ([node("DepthToSpace", ("h",), ("y",), blocksize=2)], ()),
    "reductions": (
        [
            node("ReduceL1", ("h", "two"), ("l1",)),
            node("ReduceL2", ("h", "two"), ("l2",)),
            node("ReduceLogSumExp", ("h", "two"), ("lse",)),
            node("ReduceMin", ("h", "two"), ("least",)),
            node("ReduceMax", ("h", "two"), ("most",)),
            node("ReduceSumSquare", ("h", "two"), ("squares",)),
            node("Exp", ("h",), ("above",)),
            node("ReduceLogSum", ("above", "two"), ("logs",)),
            node("Sum", ("l1", "l2", "lse", "least", "most", "squares", "logs"), ("y",)),
        ],
        (constant("two", np.array([2, 3])),),
    ),
}
OPSET = (("", 23),)
MOVES = ("resize", "linear", "cubic", "picked", "trilu", "depth")
"""What moves or mixes elements, by operators that others here are made of too."""


def model(parts: Sequence[str]) -> Model:
    """x [2,5] -> h of IMAGE's shape, then the parts, one after the other."""
    nodes = [node("MatMul", ("x", "w1"), ("flat",)), node("Reshape", ("flat", "image"), ("h0",))]
    constants = [constant("w1", random(5, 24)), constant("image", np.array(IMAGE))]
    for i, part in enumerate(parts):
        names = {"h": f"h{i}", "y": f"h{i + 1}"}
        for proto in PARTS[part][0]:
            copy = onnx.NodeProto()
            copy.CopyFrom(proto)
            copy.name = f"{part}_{proto.name}"
            copy.input[:] = [names.get(n, n) for n in proto.input]
            copy.output[:] = [names.get(n, n) for n in proto.output]
            nodes.append(copy)
        constants += PARTS[part][1]
    return Model(nodes, (value("x", (2, 5)),), (value(f"h{len(parts)}", None),), constants, opsets=OPSET)


def parameters(parts: Sequence[str]) -> list[str]:
    """The weight of the layer before, and all floats of the parts but for those that say how something is done."""
    floats = [t.name for part in parts for t in PARTS[part][1] if t.data_type == onnx.TensorProto.FLOAT]
    return ["w1", *(name for name in floats if name not in ("factors", "shares"))]


@pytest.mark.parametrize("part", PARTS)
def test_gradients(part: str, tmp_path: Path) -> None:
    """Those of all float parameters, and of the layer before, are those of central differences."""
    floats = parameters([part])
    report = built(tmp_path, model([part]), trainable=f"^({'|'.join(floats)})$", samples=1)
    assert set(report.trained) == set(floats)
    check_differences(*opened(report.train))


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    """All of them in one program, in little memory, reach the losses and weights of the reference."""
    chain = [part for part in PARTS if part not in MOVES]
    report = built(tmp_path, model(chain), trainable=f"^({'|'.join(parameters(chain))})$", samples=2, n_accum=2)
    assert deployer("train", "-t", report.train, "-o", tmp_path, "--l1", 8000) == 0


def test_files_hold_the_parts(tmp_path: Path) -> None:
    """A training graph has the nodes that a composite operator stands for, so that a gradient finds what it reads."""
    composite = {name for name, operator in registry().items() if operator.composite}
    written = {n.op_type for n in graph_of(built(tmp_path, model(["group", "rms", "lrn", "einsum"]))).node}
    assert composite
    assert not written & composite


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
def test_equal_extrema_share_a_gradient(name: str) -> None:
    """As in PyTorch's amax and amin, each of two gets half."""
    x = np.array([[1, 3, 3], [2, 2, 5]], np.float32) * (1 if name == "ReduceMax" else -1)
    step = Node("n", name, ("x",), ("y",), {"axes": (1,), "keepdims": 0})
    dout = np.array([4, 6], np.float32)
    gradient = forward_and_backward(step, {"x": x}, [0], dout)[1][0]
    np.testing.assert_array_equal(gradient, [[0, 2, 2], [0, 0, 6]])


def test_a_norm_of_zeros_has_a_gradient_of_zeros() -> None:
    """PyTorch says zero where the root has no slope."""
    step = Node("n", "ReduceL2", ("x",), ("y",), {"axes": (1,), "keepdims": 1})
    x = np.array([[0, 0], [3, 4]], np.float32)
    gradient = forward_and_backward(step, {"x": x}, [0], np.ones((2, 1), np.float32))[1][0]
    assert_close("slope of a norm", gradient, np.array([[0, 0], [0.6, 0.8]], np.float32))


def test_one_window_has_one_winner() -> None:
    """GlobalMaxPool's gradient goes to the first maximum, as in PyTorch, unlike that of ReduceMax."""
    step = Node("n", "GlobalMaxPool", ("x",), ("y",))
    x = np.array([1, 5, 5, 2], np.float32).reshape(1, 1, 2, 2)
    assert registry()["GlobalMaxPool"].infer(step, [TensorType("float32", x.shape)])[0].shape == (1, 1, 1, 1)
    gradient = forward_and_backward(step, {"x": x}, [0], np.ones((1, 1, 1, 1), np.float32))[1][0]
    np.testing.assert_array_equal(gradient.reshape(-1), [0, 1, 0, 0])
