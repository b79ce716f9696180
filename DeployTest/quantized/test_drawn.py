"""Drawn files of 8 bits against integers in numpy, and forms that only drawing found."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import Program
from deployer.frontend.check import check_program
from deployer.frontend.parse import read_graphs
from deployer.verify.reference import run_inference
from DeployTest.faults.fuzz.draw import Draw
from DeployTest.quantized import judge
from DeployTest.quantized.drawn import DrawnNet, drawn
from DeployTest.quantized.models import Array

COUNT = 60
Q, DQ = "QuantizeLinear", "DequantizeLinear"
Nodes = list[tuple[str, list[str], dict[str, Any]]]


def program_of(model: onnx.ModelProto, folder: Path) -> Program:
    """The program of a model."""
    onnx.save(model, folder / "model.onnx")
    return check_program(read_graphs(folder / "model.onnx", None))


def wrong(net: DrawnNet, program: Program) -> int:
    """Number of elements that are not those of integers in numpy."""
    due = judge.values_of(net.meaning, {**net.constants, "x": net.feed})["y"]
    found = run_inference(program, {"x": net.feed.astype(program.tensors["x"].type.dtype)})["y"]
    return int(np.count_nonzero(found.astype(np.float32) != due))


def test_integers(tmp_path: Path) -> None:
    """No element of any drawn file differs, and the draw is of both formats and of all operators of 8 bits."""
    operators, formats = set[str](), set[bool]()
    for number in range(COUNT):
        net = drawn(Draw("files", number))
        program = program_of(net.model(), tmp_path)
        assert not wrong(net, program), number
        operators |= {node.op for node in program.nodes}
        formats.add(net.qdq)
    assert formats == {True, False}
    assert {
        "Int8Conv",
        "Int8DepthwiseConv",
        "Int8Add",
        "Int8Concat",
        "Int8MaxPool",
        "Int8AveragePool",
        "Int8Lookup",
        "UInt8Numbers",
        "Int8Images",
    } <= operators


@pytest.mark.parametrize("fault", ["half up", "off by one", "no saturation"])
def test_a_fault_shows(fault: str, tmp_path: Path) -> None:
    """Integers that are rounded, moved or saturated otherwise are not those of some drawn file."""
    saturated = judge.saturated

    def other(values: Array, zero: Array) -> Array:
        if fault == "half up":
            return saturated(np.floor(values + np.float32(0.5)), zero)
        if fault == "off by one":
            return saturated(np.asarray(values) + 1, zero)
        return (np.rint(values).astype(np.int64) + int(zero)).astype(zero.dtype)

    nets = [drawn(Draw("files", number)) for number in range(COUNT)]
    programs = [program_of(net.model(), tmp_path) for net in nets]
    with mock.patch.object(judge, "saturated", other):
        assert sum(map(bool, map(wrong, nets, programs))) > COUNT // 8


def model(nodes: Nodes, shape: list[int], element: int = TensorProto.FLOAT, **constants: Any) -> onnx.ModelProto:
    """A model of one input of that shape; each node gives the value of its number, the last one the output."""
    made = [helper.make_node(op, inputs, [f"v{i}"], **attrs) for i, (op, inputs, attrs) in enumerate(nodes)]
    for node in made:
        node.domain = "com.microsoft" if node.op_type in ("QLinearAdd", "QLinearConcat", "QLinearAveragePool") else ""
    graph = helper.make_graph(
        made,
        "forms",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info(made[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


S, T = np.float32(0.05), np.float32(0.11)


def by_numpy(made: onnx.ModelProto, x: Array) -> Array:
    """The output of a model of operators that the judge has."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    return judge.values_of(made.graph.node, {**constants, "x": x})[made.graph.output[0].name]


FORMS: dict[str, tuple[Nodes, list[int], int, dict[str, Any]]] = {
    "rows through a sum": (
        [
            (Q, ["x", "s", "z"], {}),
            ("QLinearAdd", ["v0", "s", "z", "v0", "s", "z", "t", "z"], {}),
            ("QLinearMatMul", ["v1", "t", "z", "w", "s", "z", "t", "z"], {}),
            (DQ, ["v2", "t", "z"], {}),
        ],
        [2, 6],
        TensorProto.FLOAT,
        {"s": S, "t": T, "z": np.int8(0), "w": np.arange(-9, 9, dtype=np.int8).reshape(6, 3)},
    ),
    "rows through joins from behind": (
        [
            (Q, ["x", "s", "z"], {}),
            ("QLinearConcat", ["t", "z", "v0", "s", "z", "v0", "s", "z"], {"axis": -1}),
            ("QLinearMatMul", ["v1", "t", "z", "w", "s", "z", "t", "z"], {}),
            (DQ, ["v2", "t", "z"], {}),
        ],
        [2, 3],
        TensorProto.FLOAT,
        {"s": S, "t": T, "z": np.int8(0), "w": np.arange(-9, 9, dtype=np.int8).reshape(6, 3)},
    ),
    "a pool of an input": (
        [
            ("MaxPool", ["x"], {"kernel_shape": [2, 2]}),
            ("QLinearAveragePool", ["v0", "s", "z", "t", "z"], {"kernel_shape": [1, 2]}),
            (DQ, ["v1", "t", "z"], {}),
        ],
        [1, 2, 4, 4],
        TensorProto.INT8,
        {"s": S, "t": T, "z": np.int8(3)},
    ),
    "an input, as images and as rows": (
        [
            ("Flatten", ["x"], {}),
            ("QLinearMatMul", ["v0", "s", "z", "w", "s", "z", "t", "z"], {}),
            ("QLinearConv", ["x", "s", "z", "f", "s", "z", "t", "z"], {}),
            ("Flatten", ["v2"], {}),
            ("QLinearMatMul", ["v3", "t", "z", "w", "s", "z", "t", "z"], {}),
            ("QLinearAdd", ["v1", "t", "z", "v4", "t", "z", "t", "z"], {}),
            (DQ, ["v5", "t", "z"], {}),
        ],
        [2, 2, 3],
        TensorProto.UINT8,
        {
            "s": S,
            "t": T,
            "z": np.uint8(120),
            "w": np.arange(110, 128, dtype=np.uint8).reshape(6, 3),
            "f": np.arange(118, 122, dtype=np.uint8).reshape(2, 2, 1),
        },
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, tmp_path: Path) -> None:
    """A model whose ranks and quantizers follow from the nodes alone has the results of integers."""
    nodes, shape, element, constants = FORMS[name]
    made = model(nodes, shape, element, **constants)
    rng = np.random.default_rng(2)
    kind = helper.tensor_dtype_to_np_dtype(element)
    x = (
        rng.standard_normal(shape) * (1 if element == TensorProto.FLOAT else 30) + (100 if kind == np.uint8 else 0)
    ).astype(kind)
    program = program_of(made, tmp_path)
    found = run_inference(program, {"x": x.astype(program.tensors["x"].type.dtype)})[program.outputs[0]]
    np.testing.assert_array_equal(found.astype(np.float32), by_numpy(made, x))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("absent", ["reader", "both"])
def test_absent_zeros(kind: type, absent: str, tmp_path: Path) -> None:
    """A zero that is absent is 0 of the type of the numbers that are read, or that are said to be written."""
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    said = {"output_dtype": dtype} if absent == "both" else {}
    zero = [] if absent == "both" else ["z"]
    nodes: Nodes = [(Q, ["x", "s", *zero], said), (DQ, ["v0", "s"], {}), ("Relu", ["v1"], {})]
    nodes += [(Q, ["v2", "t", *zero], said), (DQ, ["v3", "t"], {})]
    made = model(nodes, [3, 50], s=S, t=T, z=kind(0))
    x = np.random.default_rng(1).standard_normal((3, 50)).astype(np.float32) * 4
    program = program_of(made, tmp_path)
    assert "Int8Lookup" in {node.op for node in program.nodes}
    least = np.iinfo(kind).min
    first = np.clip(np.rint(x / S), least, least + 255).astype(np.float32) * S
    due = np.clip(np.rint(np.maximum(first, 0) / T), least, least + 255).astype(np.float32) * T
    np.testing.assert_array_equal(run_inference(program, {"x": x})["v4"].astype(np.float32), due)


def test_means_of_a_signal(tmp_path: Path) -> None:
    """A mean over a signal whose rank no declaration says keeps its rank."""
    nodes: Nodes = [(Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {}), ("Relu", ["v1"], {})]
    nodes += [(Q, ["v2", "s", "z"], {}), (DQ, ["v3", "s", "z"], {}), ("GlobalAveragePool", ["v4"], {})]
    nodes += [(Q, ["v5", "t", "z"], {}), (DQ, ["v6", "t", "z"], {})]
    program = program_of(model(nodes, [1, 2, 7], s=S, t=T, z=np.int8(0)), tmp_path)
    assert program.tensors["v7"].type.shape == (1, 2, 1)


def test_an_attribute_of_a_function(tmp_path: Path) -> None:
    """An attribute that refers to a function's, where there is none, is an error with the node's name."""
    made = model([(Q, ["x", "s", "z"], {}), (DQ, ["v0", "s", "z"], {})], [2, 6], s=S, z=np.int8(0))
    made.graph.node[0].name = "border"
    made.graph.node[0].attribute.add(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="alpha")
    with pytest.raises(UnsupportedOperator, match=r"'border'.*refers to attribute 'alpha'"):
        program_of(made, tmp_path)
