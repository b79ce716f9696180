"""Declared types that contradict what inputs give: of values in between a warning, of graph outputs a refusal."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import DeployerWarning, ShapeMismatch
from deployer.core.ir import Program
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.small_graphs import (
    BOOL,
    BUFFER,
    INT64,
    OPTIMIZER,
    TRAIN,
    Case,
    Model,
    chain,
    constant,
    infer,
    node,
    raises,
    value,
)

pytestmark = [pytest.mark.host, pytest.mark.training]

LABELLED = Model(
    nodes=(
        TRAIN.nodes[0],
        node("SoftmaxCrossEntropyLoss", ("y", "labels"), ("loss", "log_prob"), "ce"),
        node("SoftmaxCrossEntropyLossGrad", ("log_prob", "labels"), ("y_grad",), domain="com.microsoft"),
        *TRAIN.nodes[3:],
    ),
    inputs=(TRAIN.inputs[0], value("labels", (2,), INT64), *TRAIN.inputs[2:]),
    outputs=(value("loss", ()), value("w_out", (1,), BOOL)),
)
RATE = ("--lr", "0.5")
LABELS = {f"{prefix}arr_0001": np.array([3, 0]) for prefix in ("", "mb1_")}


def checked(case: Case, folder: Path) -> tuple[Program, list[DeployerWarning]]:
    """A case's program, and the warnings about its files."""
    reports: list[DeployerWarning] = []
    return case.program(folder, warn=reports.append), reports


INFOS = {
    "another shape": (value("y", (2, 5)), "float32[2,5]"),
    "another rank": (value("y", ()), "float32[]"),
    "another type": (value("y", (2, 4), INT64), "int32[2,4]"),
    "a type without shape": (value("y", None, INT64), "int32[?]"),
    "a type that no target has": (value("y", ("batch", 4), onnx.TensorProto.UINT4), "UINT4[?,4]"),
    "a type that nobody has": (value("y", (2, 4), 99), "99[2,4]"),
}


@pytest.mark.parametrize(("info", "declared"), INFOS.values(), ids=INFOS)
def test_value_in_between(info: onnx.ValueInfoProto, declared: str, tmp_path: Path) -> None:
    """The inferred type is used: the program is that of the file without the declaration."""
    program, [warning] = checked(Case(train=replace(TRAIN, infos=(info,))), tmp_path)
    assert program == Case().program(tmp_path)
    for text in ("Warning: node 'fc' (Gemm): 'y' is declared", declared, "float32[2,4]", "drop it from the file"):
        assert text in str(warning)


REPEATED = {
    "another type": (value("y", (2, 4), INT64), ("int32 [2,4]", "INT64")),
    "another type of integers": (value("y", (2, 4), onnx.TensorProto.UINT16), ("UINT16", "FLOAT")),
    "another shape": (value("y", (2, 5)), ("float32 [2,4]", "float32 [2,5]")),
    "another rank": (value("y", (8,)), ("float32 [8]",)),
}


@pytest.mark.parametrize("outputs", [True, False], ids=["outputs", "values in between"])
@pytest.mark.parametrize("first", [True, False], ids=["the wrong one first", "the wrong one last"])
@pytest.mark.parametrize(("other", "texts"), REPEATED.values(), ids=REPEATED)
def test_declared_twice(
    other: onnx.ValueInfoProto, texts: tuple[str, ...], first: bool, outputs: bool, tmp_path: Path
) -> None:
    """Of two declarations of a value in one list none is passed over."""
    both = (other, value("y", (2, 4))) if first else (value("y", (2, 4)), other)
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    end = value("z", (2, 4))
    model = Model(nodes, (value("x", (2, 4)),), (end, *both) if outputs else (end,), infos=() if outputs else both)
    with pytest.raises(ShapeMismatch, match="'y' is declared twice, with different types") as caught:
        infer(tmp_path, model)
    for text in texts:
        assert text in str(caught.value)


def test_declared_twice_with_a_number(tmp_path: Path) -> None:
    """An element type that ONNX does not know is named by its number."""
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    infos = (value("y", (2, 4), 99), value("y", (2, 4)))
    with pytest.raises(ShapeMismatch, match="99 and FLOAT"):
        infer(tmp_path, Model(nodes, (value("x", (2, 4)),), (value("z", (2, 4)),), infos=infos))


def test_declared_twice_alike(tmp_path: Path) -> None:
    """A declaration that leaves open what another says is no contradiction."""
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    infos = (value("y", ("n", 4)), value("y", (2, 4)), value("y", None))
    infer(tmp_path, Model(nodes, (value("x", (2, 4)),), (value("z", (2, 4)),), infos=infos))


WRONG = (value("y", (2, 4), INT64), value("y", (2, 5)))


@pytest.mark.parametrize("wrong", WRONG, ids=["another type", "another shape"])
@pytest.mark.parametrize("first", [True, False], ids=["the open one first", "the open one last"])
@pytest.mark.parametrize("within", [True, False], ids=["one list", "two lists"])
def test_declared_again_without_a_type(within: bool, first: bool, wrong: onnx.ValueInfoProto, tmp_path: Path) -> None:
    """A declaration of an output counts even if another one leaves the type open."""
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    both = (onnx.ValueInfoProto(name="y"), wrong) if first else (wrong, onnx.ValueInfoProto(name="y"))
    outputs, infos = (both, ()) if within else (both[:1], both[1:])
    model = Model(nodes, (value("x", (2, 4)),), (value("z", (2, 4)), *outputs), infos=infos)
    with pytest.raises(ShapeMismatch, match="'y' is declared with another type than its inputs give it"):
        infer(tmp_path, model)


@pytest.mark.parametrize("outputs", [True, False], ids=["outputs", "values in between"])
def test_declared_three_times(outputs: bool, tmp_path: Path) -> None:
    """Two declarations that contradict each other are found behind one that leaves all open."""
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    declared, end = (value("y", None), value("y", ("n", 4)), value("y", ("n", 5))), value("z", (2, 4))
    model = Model(nodes, (value("x", (2, 4)),), (end, *declared) if outputs else (end,), infos=declared[3 * outputs :])
    with pytest.raises(ShapeMismatch, match="'y' is declared twice, with different types"):
        infer(tmp_path, model)


def test_output_against_value_info(tmp_path: Path) -> None:
    """An output's own declaration wins, as in ONNX Runtime; graphs of its training tools need it."""
    nodes = (node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    outputs = (value("z", (2, 4)), value("y", (2, 4)))
    infer(tmp_path, Model(nodes, (value("x", (2, 4)),), outputs, infos=(value("y", (1,), INT64),)))


def test_python_warns(tmp_path: Path) -> None:
    """Without a `warn` function the warning is one of Python; a file without contradictions causes none."""
    model = chain(node("Relu", ("x",), ("h",)), node("Exp", ("h",), ("y",)))
    with pytest.warns(DeployerWarning, match="'h' is declared") as caught:
        infer(tmp_path, replace(model, infos=(value("h", (3, 2)),)))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer(tmp_path, replace(model, infos=(value("h", (2, 3)),)))


def test_each_value_once(tmp_path: Path) -> None:
    """Nodes that become several say it once, and each value says it, in the order of the nodes."""
    infos = (value("y_grad", (7,)), value("log_prob", ()), value("y", (1,)))
    _, reports = checked(Case(train=replace(LABELLED, infos=infos)), tmp_path)
    assert [warning.cause.split("'")[3] for warning in reports] == ["y", "log_prob", "y_grad"]
    layer = node("LogSoftmax", ("x",), ("h",), axis=-1)
    lowered = replace(chain(layer, node("Exp", ("h",), ("y",))), infos=(value("h", (3, 2)),))
    with pytest.warns(DeployerWarning) as caught:
        infer(tmp_path, lowered)
    assert len(caught) == 1


def test_optimizer_graph(tmp_path: Path) -> None:
    """The same in the optimizer graph, of a gradient that is scaled before the step."""
    scaled = (
        node("Mul", (BUFFER, "half"), ("scaled",)),
        node("SGD", ("w", "scaled"), ("w_updated",), "step", lr=0.25),
    )
    model = replace(OPTIMIZER, nodes=scaled, initializers=(constant("half", np.float32(0.5)),))
    _, [warning] = checked(Case(optimizer=replace(model, infos=(value("scaled", (9,)),))), tmp_path)
    assert "'scaled' is declared" in str(warning)


OUTPUTS = {
    "loss": (Case(train=replace(TRAIN, outputs=(value("loss", (2,)), TRAIN.outputs[1]))), "'loss' is declared"),
    "updated weight": (Case(optimizer=replace(OPTIMIZER, outputs=(value("w_updated", (3, 4)),))), "'w_updated' is"),
    "shared input": (
        Case(optimizer=replace(OPTIMIZER, inputs=(value("w", (3, 4)), OPTIMIZER.inputs[1]))),
        "'w' differs between",
    ),
}


@pytest.mark.parametrize(("case", "text"), OUTPUTS.values(), ids=OUTPUTS)
def test_interface_of_training(case: Case, text: str, tmp_path: Path) -> None:
    """Tensors that others read or write keep the declared type, or the program is refused."""
    with raises(ShapeMismatch, text):
        case.program(tmp_path)


@pytest.mark.parametrize("declared", [value("y", (3, 2)), value("y", (2, 3), INT64)])
def test_output_of_inference(declared: onnx.ValueInfoProto, tmp_path: Path) -> None:
    """The same of an inference graph, where the node's output is read by another node as well."""
    model = chain(node("Relu", ("x",), ("y",)), node("Exp", ("y",), ("z",)))
    with raises(ShapeMismatch, "'y' is declared", "float32[2,3]"):
        infer(tmp_path, replace(model, outputs=(declared, value("z", None))))


def trained(folder: Path, model: Model) -> Path:
    """The training folder of a case; what it must come to, the reference says at the rate of RATE."""
    case = Case(train=model, arrays=LABELS)
    case.program(folder, warn=lambda warning: None)
    return case.dataset(folder)


def test_train_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error and in report.json; the run goes on, and the next command says it again."""
    odd = trained(tmp_path / "odd", replace(LABELLED, infos=(value("log_prob", ()),)))
    well = trained(tmp_path / "well", LABELLED)
    texts = ("Warning: node 'ce'", "'log_prob' is declared", "float32[]", "float32[2,4]")
    for extra in ((), ("--skipgen",)):
        capsys.readouterr()
        assert deployer("train", "-t", odd, "-o", tmp_path / "c", *RATE, *extra) == 0
        streams = capsys.readouterr()
        assert all(text in streams.err for text in texts)
        assert "Warning" not in streams.out
        [record] = json.loads((tmp_path / "c" / "report.json").read_text())["warnings"]
        assert "'log_prob' is declared" in record["cause"]
        assert record["facts"] == {"declared": "float32[]", "inferred": "float32[2,4]"}
        assert record["hint"]
    assert deployer("train", "-t", well, "-o", tmp_path / "w", *RATE) == 0
    assert capsys.readouterr().err == ""
    assert json.loads((tmp_path / "w" / "report.json").read_text())["warnings"] == []


def test_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads the file says it; an output is refused everywhere."""
    odd = trained(tmp_path / "odd", replace(LABELLED, infos=(value("log_prob", ()),)))
    for command in ("compile", "optimizer"):
        capsys.readouterr()
        assert deployer(command, "-t", odd, "-o", tmp_path / command, *RATE) == 0
        assert "Warning: node 'ce'" in capsys.readouterr().err
    layers = (node("Gemm", ("x", "w"), ("h",), "fc", transB=1), node("Relu", ("h",), ("y",)))
    model = chain(*layers, out=(2, 4), initializers=(constant("w", np.ones((4, 3), np.float32)),))
    forward = replace(model, infos=(value("h", (4, 2)),)).save(tmp_path / "f.onnx")
    assert deployer("train-graph", forward, "--loss", "mse", "-o", tmp_path / "t") == 0
    stderr = capsys.readouterr().err
    assert stderr.count("Warning") == stderr.count("'h' is declared") == 1
    replace(model, outputs=(value("y", (4, 2)),)).save(forward)
    assert "'y' is declared" in refused(capsys, "train-graph", forward, "--loss", "mse", "-o", tmp_path / "t")
