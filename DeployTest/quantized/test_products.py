"""Products of two values of 8 bits, as in attention: the integers of numpy, and of ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.cli import main
from deployer.core.errors import UnsupportedOperator
from deployer.verify.reference import run_inference
from DeployTest.quantized import judge
from DeployTest.quantized.models import Array
from DeployTest.quantized.test_drawn import DQ, Nodes, Q, model, program_of

onnxruntime = pytest.importorskip("onnxruntime")
HEADS, PLACES, WIDTH = 3, 7, 10
SHAPE = [2, HEADS, PLACES, WIDTH]
ZEROS: dict[str, tuple[type, int, int, int]] = {
    "signed symmetric": (np.int8, 0, 0, 0),
    "signed asymmetric": (np.int8, 3, -11, 40),
    "unsigned symmetric": (np.uint8, 128, 128, 128),
    "unsigned asymmetric": (np.uint8, 131, 97, 0),
}
"""Type of all numbers, and zeros of the input, of the scores, and of the shares."""


def attention(kind: type, x: int, scores: int, shares: int, qdq: bool) -> onnx.ModelProto:
    """Scores of queries and keys, their softmax in floats, and the sum of values by it: all three are the input."""

    def product(a: list[str], b: list[str], y: list[str]) -> None:
        if not qdq:
            nodes.append(("QLinearMatMul", [*a, *b, *y], {}))
            return
        found = []
        for operand in (a, b):
            nodes.append((DQ, operand, {}))
            found.append(f"v{len(nodes) - 1}")
        nodes.extend([("MatMul", found, {}), (Q, [f"v{len(nodes)}", *y[:2]], {})])

    nodes: Nodes = [
        (Q, ["x", "s", "z"], {}),
        (DQ, ["v0", "s", "z"], {}),
        ("Transpose", ["v1"], {"perm": [0, 1, 3, 2]}),
        (Q, ["v2", "s", "z"], {}),
    ]
    product(["v0", "s", "z"], ["v3", "s", "z"], ["t", "y"])
    last = len(nodes) - 1
    nodes += [(DQ, [f"v{last}", "t", "y"], {}), ("Softmax", [f"v{last + 1}"], {"axis": -1})]
    nodes.append((Q, [f"v{last + 2}", "u", "p"], {}))
    product([f"v{last + 3}", "u", "p"], ["v0", "s", "z"], ["s", "z"])
    nodes.append((DQ, [f"v{len(nodes) - 1}", "s", "z"], {}))
    scales = {"s": np.float32(0.03), "t": np.float32(0.11), "u": np.float32(1 / 255)}
    made = model(nodes, SHAPE, **scales, z=kind(x), y=kind(scores), p=kind(shares))
    return onnx.shape_inference.infer_shapes(made)


def by_runtime(made: onnx.ModelProto, x: Array) -> Array:
    """ONNX Runtime's result of the nodes as they are: its optimizer makes a softmax of 8 bits, a table, of three."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [y] = onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, {"x": x})
    return np.asarray(y)


def _softmax(node: onnx.NodeProto, x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True), np.float32)


def by_integers(made: onnx.ModelProto, x: Array, monkeypatch: pytest.MonkeyPatch) -> Array:
    """The model's result, with products in integers, and what is float between them in float64."""
    products = judge.OPERATORS | {
        "MatMul": lambda node, a, b: a.astype(np.float64) @ b.astype(np.float64),
        "Transpose": lambda node, a: a.transpose(judge.attributes(node)["perm"]),
        "Softmax": _softmax,
    }
    monkeypatch.setattr(judge, "OPERATORS", products)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    return judge.values_of(made.graph.node, {**constants, "x": x})[made.graph.output[0].name]


@pytest.mark.parametrize("qdq", [True, False], ids=["QDQ", "QOperator"])
@pytest.mark.parametrize("zeros", ZEROS)
def test_attention(zeros: str, qdq: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both products of attention are integers, for zeros and types of all kinds, and have the judges' elements."""
    made = attention(*ZEROS[zeros], qdq)
    program = program_of(made, tmp_path)
    assert [node.op for node in program.nodes].count("Int8MatMul") == 2
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    found = run_inference(program, {"x": x})[program.outputs[0]].astype(np.float32)
    assert len(np.unique(found)) > WIDTH
    np.testing.assert_array_equal(found, by_runtime(made, x))
    np.testing.assert_array_equal(found, by_integers(made, x, monkeypatch))


@pytest.mark.host
@pytest.mark.parametrize("l1", ["64k", "1500"])
def test_attention_runs(l1: str, tmp_path: Path) -> None:
    """A program has these elements, whole or in tiles."""
    case = tmp_path / "case"
    case.mkdir()
    made = attention(*ZEROS["unsigned asymmetric"], False)
    onnx.save(made, case / "network.onnx")
    x = np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)
    np.savez(case / "inputs.npz", x=x)
    np.savez(case / "outputs.npz", **{made.graph.output[0].name: by_runtime(made, x)})
    assert main(["infer", "-t", str(case), "-o", str(tmp_path / "c"), "-p", "host", "--l1", l1]) == 0


MATRIX = np.random.default_rng(8).integers(-128, 128, (WIDTH, 6))


@pytest.mark.parametrize("channels", [1, 6], ids=["a scale", "scales by columns"])
@pytest.mark.parametrize("qdq", [True, False], ids=["QDQ", "QOperator"])
def test_a_constant_for_batches(qdq: bool, channels: int, tmp_path: Path) -> None:
    """Rows of several batches meet a constant matrix in integers, as they do where queries and keys are made."""
    w = np.linspace(0.01, 0.02, channels).astype(np.float32)
    constants: dict[str, Any] = {"s": np.float32(0.03), "t": np.float32(0.21), "z": np.int8(-4)}
    constants["w"] = MATRIX.astype(np.int8)
    constants |= {"r": w if channels > 1 else w[0], "o": np.zeros(channels, np.int8) if channels > 1 else np.int8(0)}
    nodes: Nodes = [(Q, ["x", "s", "z"], {})]
    if qdq:
        nodes += [(DQ, ["v0", "s", "z"], {}), (DQ, ["w", "r", "o"], {"axis": 1}), ("MatMul", ["v1", "v2"], {})]
        nodes.append((Q, ["v3", "t", "z"], {}))
    else:
        nodes.append(("QLinearMatMul", ["v0", "s", "z", "w", "r", "o", "t", "z"], {}))
    nodes.append((DQ, [f"v{len(nodes) - 1}", "t", "z"], {}))
    made = onnx.shape_inference.infer_shapes(model(nodes, SHAPE, **constants))
    program = program_of(made, tmp_path)
    x = np.random.default_rng(7).standard_normal(SHAPE).astype(np.float32) * 2
    found = run_inference(program, {"x": x})[program.outputs[0]].astype(np.float32)
    assert "Int8MatMul" in {node.op for node in program.nodes}
    np.testing.assert_array_equal(found, by_runtime(made, x))
    numbers = np.clip(np.rint(x / constants["s"]) - 4, -128, 127) + 4
    due = np.rint(numbers @ MATRIX * (constants["s"] * w / constants["t"]))
    np.testing.assert_array_equal(found, (np.clip(due - 4, -128, 127) + 4).astype(np.float32) * constants["t"])


def test_axes_that_are_broadcast_in_part(tmp_path: Path) -> None:
    """Leading axes of which each operand has some are an error that says which are taken."""
    shapes = {"x": [2, 1, 3, 4], "b": [1, 3, 4, 3]}
    nodes = [
        *(helper.make_node(Q, [name, "s", "z"], [f"q{name}"]) for name in shapes),
        helper.make_node("QLinearMatMul", ["qx", "s", "z", "qb", "s", "z", "s", "z"], ["y"], "scores"),
        helper.make_node(DQ, ["y", "s", "z"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in (("s", np.float32(0.1)), ("z", np.int8(0)))]
    graph = helper.make_graph(nodes, "g", ends, [helper.make_tensor_value_info("out", 1, None)], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    with pytest.raises(UnsupportedOperator, match=r"leading axes are \[2, 1\] and \[1, 3\]"):
        program_of(made, tmp_path)
