"""Functions of a file are put where they are called: the same values as ONNX Runtime's, or an error that names them."""

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, FunctionProto, NodeProto, helper

from deployer.core.errors import DeployerError, GraphProblem, UnsupportedOperator
from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.training import train_graph
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.small_graphs import Model, chain, constant, node, raises
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.models]

OWN = "own"


def _function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[NodeProto], opset: int = 17, **parts: object
) -> FunctionProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(OWN, 1)]
    return helper.make_function(OWN, name, inputs, outputs, nodes, opsets, **parts)  # type: ignore[arg-type]


def _reference(op: str, inputs: list[str], outputs: list[str], **references: str) -> NodeProto:
    """A node whose attributes are those of the function it is in."""
    call = helper.make_node(op, inputs, outputs)
    for name, source in references.items():
        kind = AttributeProto.FLOAT if name in ("alpha", "beta", "value_float") else AttributeProto.INT
        call.attribute.add(name=name, ref_attr_name=source, type=kind)
    return call


def _save(folder: Path, model: Model, *functions: FunctionProto) -> Path:
    path = model.save(folder / "network.onnx")
    file_model = onnx.load(str(path))
    file_model.functions.extend(functions)
    if OWN not in {o.domain for o in file_model.opset_import}:
        file_model.opset_import.append(helper.make_opsetid(OWN, 1))
    path.write_bytes(file_model.SerializeToString())
    return path


def _read(folder: Path, model: Model, *functions: FunctionProto) -> Program:
    return check.check_program(parse.read_graphs(_save(folder, model, *functions), None))


def _same(folder: Path, op: str, model: Model, *functions: FunctionProto) -> None:
    """Ours against ONNX Runtime's, which puts functions in place itself."""
    program = _read(folder, model, *functions)
    x = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(folder / "network.onnx"))
    assert_close(op, run_inference(program, {"x": x})["y"], session.run(None, {"x": x})[0])


SCALED = _function(
    "Scaled",
    ["a", "b"],
    ["out", "sum"],
    [
        _reference("Constant", [], ["factor"], value_float="factor"),
        helper.make_node("Mul", ["a", "factor"], ["inner"], "times"),
        helper.make_node("Add", ["inner", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["out"]),
    ],
    attributes=["factor"],
)
DEFAULTED = _function(
    "Flat",
    ["a"],
    ["out"],
    [_reference("Flatten", ["a"], ["out"], axis="axis")],
    attribute_protos=[helper.make_attribute("axis", 2)],
)


def test_values_attributes_and_names(tmp_path: Path) -> None:
    """Two calls whose inner names are those of the graph, one that reads the second output alone."""
    nodes = (
        node("Scaled", ("x", "x"), ("inner", "factor"), "first", domain=OWN, factor=3.0),
        node("Scaled", ("inner", "x"), ("unread", "y"), "second", domain=OWN, factor=-0.5),
    )
    _same(tmp_path, "Add", chain(*nodes), SCALED)


def test_calls_of_one_name(tmp_path: Path) -> None:
    """Calls that have the same name, and so the same names within, are told apart, however many they are."""
    names = ("x", "first", "second", "third", "y")
    calls = [
        node("Scaled", (a, "x"), (b, f"{b}_sum"), "same", domain=OWN, factor=2.0) for a, b in itertools.pairwise(names)
    ]
    x = np.array([[1.0, -2.0, 0.5], [-0.25, 3.0, 0.0]], np.float32)
    expected = x
    for _ in calls:
        expected = np.maximum(2 * expected + x, 0)
    np.testing.assert_array_equal(run_inference(_read(tmp_path, chain(*calls), SCALED), {"x": x})["y"], expected)


def test_attributes_that_a_function_does_not_have(tmp_path: Path) -> None:
    """Of several, every run names the same one."""
    call = node("Flat", ("x",), ("y",), domain=OWN, **{f"a{i:02}": i for i in range(40)})
    with raises(GraphProblem, "has attribute 'a00'"):
        _read(tmp_path, chain(call), DEFAULTED)


def test_defaults_of_attributes(tmp_path: Path) -> None:
    """Given, by default, and without either: then the operator's own default holds."""
    plain = _function(
        "Plain", ["a"], ["out"], [_reference("Flatten", ["a"], ["out"], axis="axis")], attributes=["axis"]
    )
    for function, attrs in ((DEFAULTED, {}), (DEFAULTED, {"axis": 0}), (plain, {"axis": 2}), (plain, {})):
        call = node(function.name, ("x",), ("y",), domain=OWN, **attrs)
        _same(tmp_path, "Flatten", chain(call), function)


def test_functions_that_call_functions(tmp_path: Path) -> None:
    """An attribute goes through both."""
    outer = _function(
        "Outer",
        ["a"],
        ["out"],
        [
            _reference("Scaled", ["a", "a"], ["inner", "sum"], factor="value"),
            helper.make_node("Softmax", ["inner"], ["rows"], axis=0),
            helper.make_node("Mul", ["rows", "inner"], ["out"]),
        ],
        attributes=["value"],
    )
    outer.node[0].domain, outer.node[0].attribute[0].type = OWN, AttributeProto.FLOAT
    _same(tmp_path, "Softmax", chain(node("Outer", ("x",), ("y",), domain=OWN, value=2.0)), SCALED, outer)


def test_functions_of_other_versions(tmp_path: Path) -> None:
    """ONNX wants one schema under the function's import and the model's; one meaning will do."""
    call = chain(node("Old", ("x",), ("y",), domain=OWN))
    relu = _function("Old", ["a"], ["out"], [helper.make_node("Relu", ["a"], ["out"])], opset=11)
    assert [n.op for n in _read(tmp_path, call, relu).graphs[0].nodes] == ["Relu"]
    softmax = _function("Old", ["a"], ["out"], [helper.make_node("Softmax", ["a"], ["out"], axis=0)], opset=11)
    with raises(UnsupportedOperator, "(Softmax)", "version 11", "version 13", "an opset_import that names one version"):
        _read(tmp_path, call, softmax)


def test_optional_inputs_and_overloads(tmp_path: Path) -> None:
    clip = _function("Cut", ["a", "low", "high"], ["out"], [helper.make_node("Clip", ["a", "low", "high"], ["out"])])
    low = constant("low", np.array(-0.25, np.float32))
    for inputs in (("x",), ("x", "low"), ("x", "", "low")):
        _same(tmp_path, "Clip", chain(node("Cut", inputs, ("y",), domain=OWN), initializers=(low,)), clip)
    fast, slow = (_function("Pick", ["a"], ["out"], [helper.make_node(op, ["a"], ["out"])]) for op in ("Relu", "Exp"))
    fast.overload = "fast"
    call = node("Pick", ("x",), ("y",), domain=OWN)
    assert [n.op for n in _read(tmp_path, chain(call), fast, slow).graphs[0].nodes] == ["Exp"]
    call.overload = "fast"
    assert [n.op for n in _read(tmp_path, chain(call), fast, slow).graphs[0].nodes] == ["Relu"]


def test_inner_nodes_obey_the_same_rules(tmp_path: Path) -> None:
    wrong = {
        "attribute 'activation' is unknown": helper.make_node("Add", ["a", "a"], ["out"], activation="Relu"),
        "domain 'evil'": helper.make_node("Relu", ["a"], ["out"], domain="evil"),
        "'axis' refers to attribute 'nowhere' of a function": _reference("Flatten", ["a"], ["out"], axis="nowhere"),
    }
    for text, inner in wrong.items():
        function = _function("Wrong", ["a"], ["out"], [inner])
        with raises(UnsupportedOperator, text):
            _read(tmp_path, chain(node("Wrong", ("x",), ("y",), domain=OWN)), function)


def _relu(name: str, op: str = "Relu", domain: str = "") -> FunctionProto:
    return _function(name, ["a"], ["out"], [helper.make_node(op, ["a"], ["out"], domain=domain)])


def test_functions_that_cannot_be_put_in_place(tmp_path: Path) -> None:
    call = chain(node("F", ("x",), ("y",), "call", domain=OWN))
    cycle = (_relu("F", "G", OWN), _relu("G", "F", OWN))
    twice = _function("F", ["a"], ["out"], [helper.make_node("Relu", ["a"], ["out"])])
    twice.input.append("a")
    shadow = _relu("Relu")
    shadow.domain = ""
    faults: tuple[tuple[tuple[FunctionProto, ...], str], ...] = (
        (cycle, "a function calls itself"),
        ((_relu("F"), _relu("F")), "'F' is defined twice"),
        ((twice,), "has an input twice"),
        ((_relu("F"), shadow), "'Relu' has the name of an operator"),
    )
    for functions, text in faults:
        with raises(GraphProblem, text, "try"):
            _read(tmp_path, call, *functions)
    for model, text in (
        (chain(node("F", ("x", "x"), ("y",), "call", domain=OWN)), "has 2 inputs, the function of that name 1"),
        (chain(node("F", ("x",), ("y", "z"), "call", domain=OWN)), "has 2 outputs, the function of that name 1"),
        (chain(node("F", ("x",), ("y",), "call", domain=OWN, more=1)), "has attribute 'more'"),
    ):
        with raises(GraphProblem, "node 'call' (F)", text):
            _read(tmp_path, model, _relu("F"))
    with raises(DeployerError, "no producer"):
        empty = _function("F", ["a"], ["out"], [helper.make_node("Relu", ["a"], ["other"])])
        _read(tmp_path, call, empty)


def test_functions_that_double_with_each_call(tmp_path: Path) -> None:
    """Forty functions that each call the next twice: 2^40 nodes are refused before memory is taken."""
    doubling = [
        _function(
            f"F{i}",
            ["a"],
            ["out"],
            [helper.make_node(f"F{i + 1}", [a], [b], domain=OWN) for a, b in (("a", "t"), ("t", "out"))],
        )
        for i in range(40)
    ]
    with raises(GraphProblem, "grow to more than 100000 nodes"):
        _read(tmp_path, chain(node("F0", ("x",), ("y",), domain=OWN)), *doubling, _relu("F40"))


def test_functions_that_double_in_bytes(tmp_path: Path) -> None:
    """Few nodes with long names, in place so often that they would take gigabytes."""
    long = helper.make_node("Relu", ["a"], ["out"], "n" * (1 << 20))
    nodes = [node("F", ("x",), (f"y{i or ''}",), f"call{i}", domain=OWN) for i in range(300)]
    with raises(GraphProblem, f"grow to more than {1 << 28} bytes"):
        _read(tmp_path, chain(*nodes), _function("F", ["a"], ["out"], [long]))


def test_a_long_chain_of_functions(tmp_path: Path) -> None:
    """Depth costs no recursion."""
    links = [_relu(f"F{i}", f"F{i + 1}", OWN) for i in range(3000)]
    program = _read(tmp_path, chain(node("F0", ("x",), ("y",), domain=OWN)), *links, _relu("F3000"))
    assert [n.op for n in program.graphs[0].nodes] == ["Relu"]


def test_training_graph_of_a_model_with_functions(tmp_path: Path) -> None:
    """The written graph holds the functions' nodes in place, and its first loss is ONNX Runtime's."""
    weight = constant("w", np.random.default_rng(2).standard_normal((3, 3)).astype(np.float32))
    nodes = (
        node("MatMul", ("x", "w"), ("s",)),
        node("Scaled", ("s", "x"), ("y", ""), domain=OWN, factor=0.5),
    )
    path = _save(tmp_path, chain(*nodes, initializers=(weight,)), SCALED)
    x, target = np.ones((1, 2, 3), np.float32), np.zeros((1, 2, 3), np.float32)
    report = train_graph.build_train_graph(path, "mse", "sgd", 1e-3, "", tmp_path, data={"x": x, "target": target})
    expected = onnxruntime.InferenceSession(str(path)).run(None, {"x": x[0]})[0]
    loss = np.array(report.losses[0], np.float32)
    assert_close("MSELoss", loss, np.array(np.mean(np.square(expected, dtype=np.float64)), np.float32))
    assert not onnx.load(str(report.train / "network.onnx")).functions
