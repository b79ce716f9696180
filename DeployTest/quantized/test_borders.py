"""Borders of quantized parts: heads that train behind them, layers that stay float, and models that are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.cli import main
from deployer.core.errors import DeployerError
from deployer.frontend.check import check_program
from deployer.frontend.parse import read_graphs
from deployer.verify.reference import run_inference
from DeployTest.quantized.models import Array, Net, quantized_model, written
from DeployTest.support.tolerances import assert_close

SCALES = {"s": np.float32(0.05), "z": np.int8(3), "t": np.float32(0.04)}


def border_model(
    nodes: list[tuple[str, list[str], dict[str, Any]]], path: Path, element: int = TensorProto.FLOAT, **more: Any
) -> Path:
    """A model of one input [2, 6]; each node gives the value of its number, the last one the output."""
    made = [helper.make_node(op, inputs, [f"v{i}"], **attrs) for i, (op, inputs, attrs) in enumerate(nodes)]
    for node in made:
        node.domain = "com.microsoft" if node.op_type in ("QLinearSoftmax", "QGemm", "QLinearAdd") else ""
    graph = helper.make_graph(
        made,
        "borders",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])],
        [helper.make_tensor_value_info(made[-1].output[0], element, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (SCALES | more).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


Q, DQ = "QuantizeLinear", "DequantizeLinear"
REFUSED: dict[str, tuple[list[tuple[str, list[str], dict[str, Any]]], dict[str, Any], str]] = {
    "elements": ([(Q, ["x", "s", "wide"], {}), (DQ, ["v0", "s", "wide"], {})], {"wide": np.uint16(3)}, "INT8 or UINT8"),
    "scale": ([(Q, ["x", "x", "z"], {}), (DQ, ["v0", "s", "z"], {})], {}, "a constant"),
    "below": ([(Q, ["x", "n", "z"], {}), (DQ, ["v0", "n", "z"], {})], {"n": np.float32(-1)}, "above zero"),
    "channels": (
        [(Q, ["x", "l", "z"], {}), (DQ, ["v0", "l", "z"], {})],
        {"l": np.full(6, 0.1, np.float32)},
        "one scale",
    ),
    "other": ([(Q, ["x", "s", "z"], {}), (DQ, ["v0", "t", "z"], {})], {}, "another scale"),
    "output": ([(Q, ["x", "s", "z"], {})], {}, "a DequantizeLinear behind it"),
    "operator": ([(Q, ["x", "s", "z"], {}), ("QLinearSoftmax", ["v0", "s", "z", "s", "z"], {})], {}, "one of QGemm"),
    "reader": ([(Q, ["x", "s", "z"], {}), ("Softmax", ["v0"], {}), (DQ, ["v1", "s", "z"], {})], {}, "8 bits"),
    "block": (
        [(Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {"block_size": 2})],
        {},
        "block_size is 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    """A node without an integer form is an error that names it and a way out."""
    nodes, more, says = REFUSED[name]
    element = TensorProto.INT8 if name == "output" else TensorProto.FLOAT
    with pytest.raises(DeployerError) as error:
        check_program(read_graphs(border_model(nodes, tmp_path / "model.onnx", element, **more), None))
    assert says in str(error.value)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_functions_of_other_domains(domain: str, tmp_path: Path) -> None:
    """A function of ONNX is a table; one of that name in another domain is not taken for it."""
    op = ("HardSwish", "Gelu")[bool(domain)]
    nodes = [(Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {}), (op, ["v1"], {}), (Q, ["v2", "t", "z"], {})]
    path = border_model([*nodes, (DQ, ["v3", "t", "z"], {})], tmp_path / "model.onnx")
    model = onnx.load(path)
    model.graph.node[2].domain = domain
    onnx.save(model, path)
    operators = [node.op for node in check_program(read_graphs(path, None)).nodes]
    assert ("Int8Lookup" in operators) == (not domain)


def test_float_between_borders(tmp_path: Path) -> None:
    """An operator without an integer form is computed in floats between both borders."""
    nodes = [(Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {}), ("Softmax", ["v1"], {}), (Q, ["v2", "t", "z"], {})]
    path = border_model([*nodes, (DQ, ["v3", "t", "z"], {})], tmp_path / "model.onnx")
    operators = [node.op for node in check_program(read_graphs(path, None)).nodes]
    assert operators == ["QuantizeInt8", "DequantizeInt8", "Softmax", "QuantizeInt8", "DequantizeInt8"]


KEPT: dict[str, tuple[list[tuple[str, list[str], dict[str, Any]]], dict[str, Any], tuple[str, ...]]] = {
    "moved at once": (
        [(Q, ["x", "s", "z"], {}), ("Flatten", ["v0"], {}), (DQ, ["v1", "s", "z"], {})],
        {},
        ("QuantizeInt8", "DequantizeInt8"),
    ),
    "product of floats": (
        [(Q, ["x", "s", "z"], {}), ("QGemm", ["v0", "s", "z", "w", "t", "o", "b"], {})],
        {"w": np.arange(-9, 9, dtype=np.int8).reshape(6, 3), "o": np.int8(0), "b": np.array([3, -70, 900], np.int32)},
        ("QuantizeInt8", "DequantizeInt8", "Gemm"),
    ),
    "weights in floats": (
        [
            *((Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {})),
            *((Q, ["f", "l", "o"], {"axis": 0}), (DQ, ["v2", "l", "o"], {"axis": 0})),
            *(("Gemm", ["v1", "v3"], {"transB": 1}), (Q, ["v4", "t", "z"], {}), (DQ, ["v5", "t", "z"], {})),
        ],
        {
            "f": np.linspace(-1, 1.3, 18, dtype=np.float32).reshape(3, 6),
            "l": np.array([0.01, 0.02, 0.005], np.float32),
            "o": np.zeros(3, np.int8),
        },
        ("QuantizeInt8", "Int8Conv", "DequantizeInt8"),
    ),
}
"""Nodes, constants, and the operators of the program."""


@pytest.mark.parametrize("name", KEPT)
def test_read(name: str, tmp_path: Path) -> None:
    """Values that move before anything computes, products whose results are floats, weights that nodes quantize."""
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes, more, operators = KEPT[name]
    path = border_model(nodes, tmp_path / "model.onnx", **more)
    program = check_program(read_graphs(path, None))
    assert tuple(node.op for node in program.nodes) == operators
    x = np.random.default_rng(6).standard_normal((2, 6)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [due] = onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})
    assert_close(name, run_inference(program, {"x": x})[program.outputs[0]].astype(np.float32), due)


@pytest.mark.parametrize("name", ["same", "ceil"])
def test_windows_without_integers_stay_float(name: str, tmp_path: Path) -> None:
    """A layer whose windows have no integer form is one of floats; layers around it are integers."""
    net = Net((1, 2, 5, 5), np.random.default_rng(21))
    net.conv(4, 2, 3, 3, pads=[1, 1, 1, 1])
    net.add("Relu")
    if name == "same":
        net.conv(3, 4, 3, 3, auto_pad="SAME_UPPER", strides=[2, 2])
    else:
        net.add("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    net.add("GlobalAveragePool")
    source, kinds = net.save(tmp_path / "net.onnx"), ("QInt8", "QInt8", True)
    path = written(source, net.shape, "QDQ", kinds, tmp_path / "quantized.onnx")
    operators = [node.op for node in check_program(read_graphs(path, None)).nodes]
    kind = "Conv" if name == "same" else "AveragePool"
    assert operators.count(kind) == 1
    assert operators.index("Int8Conv") < operators.index(kind) < operators.index("Int8AveragePool")


def _features(path: Path, xs: list[Array]) -> Array:
    """Features that ONNX Runtime gives to the last layer of a model."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    [gemm] = [node for node in model.graph.node if node.op_type == "Gemm"]
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(gemm.input[0], TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    if "QDQ" in path.name:  # there are no precise kernels of operators over signed numbers
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.array([session.run(None, {"x": x})[0].reshape(-1) for x in xs], np.float64)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["residual", "signal"])
def test_head_trains(name: str, form: str, tmp_path: Path) -> None:
    """Float layers behind a quantized part take the steps of a regression on its features; nothing else is trained."""
    kinds = ("QInt8", "QInt8", True)
    quantized_model(name, form, kinds, tmp_path)
    last = next(node.name for node in onnx.load(tmp_path / f"{name}.onnx").graph.node if node.op_type == "Gemm")
    path = quantized_model(name, form, kinds, tmp_path, (last,))
    case, rate, steps = tmp_path / "case", 0.05, 4
    command = ["train-graph", str(path), "--loss", "cross_entropy", "--n-steps", str(steps), "--lr", str(rate)]
    assert main([*command, "-o", str(case)]) == 0
    [folder] = case.glob("*_train")
    inputs, outputs = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    w, b = inputs["arr_0002"].astype(np.float64), inputs["arr_0003"].astype(np.float64)
    prefixes = ["", *(f"mb{i}_" for i in range(1, steps))]
    features = _features(path, [inputs[f"{prefix}arr_0000"] for prefix in prefixes])
    for x, prefix in zip(features, prefixes, strict=True):
        scores = w @ x + b
        slope = np.exp(scores - scores.max())
        slope /= slope.sum()
        slope[int(inputs[f"{prefix}arr_0001"][0])] -= 1
        w, b = w - rate * np.outer(slope, x), b - rate * slope
    weights = {key: outputs[key] for key in outputs if key.startswith("p")}
    assert len(weights) == 2
    for array in weights.values():
        due = w if array.ndim == 2 else b
        before = inputs["arr_0002" if array.ndim == 2 else "arr_0003"]
        assert np.abs(due - before).max() > rate / 10, "the weights hardly move"
        assert_close("the head's moves", (array - before).astype(np.float32), (due - before).astype(np.float32))
    assert main(["train", "-t", str(case), "-o", str(tmp_path / "c"), "-p", "host", "--l1", "4000"]) == 0
