"""Weights of other widths: their numbers in float32, and a warning that says how many and how exact."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from deployer.core.errors import DeployerWarning, ShapeMismatch
from deployer.core.ir import Program
from deployer.frontend import check, parse
from deployer.training.train_graph import build_train_graph
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import Model, node, raises, value

pytestmark = [pytest.mark.host]
NUMBERS = (1.0, 0.1, -3.0, 1.5)


def model(kind: int, numbers: tuple[float, ...] = NUMBERS, end: int = TensorProto.FLOAT) -> Model:
    """y = x + w."""
    weight = helper.make_tensor("w", kind, (len(numbers),), numbers)
    inputs, outputs = (value("x", (len(numbers),), end),), (value("y", (len(numbers),), end),)
    return Model((node("Add", ("x", "w"), ("y",)),), inputs, outputs, (weight,))


def read(folder: Path, source: Model) -> tuple[Program, list[DeployerWarning]]:
    """The program, and the warnings about the file."""
    warnings: list[DeployerWarning] = []
    source = parse.read_graphs(source.save(folder / "network.onnx"), None)
    return check.check_program(source, warn=warnings.append), warnings


@pytest.mark.parametrize(
    ("kind", "name", "numbers", "error"),
    [
        (TensorProto.DOUBLE, "float64", NUMBERS, "at most 1.49e-09, in 'w'"),
        (TensorProto.FLOAT16, "float16", (1.0, 0.0999755859375, -3.0, 1.5), "none"),
        (TensorProto.BFLOAT16, "bfloat16", (1.0, 0.10009765625, -3.0, 1.5), "none"),
    ],
)
def test_weights(kind: int, name: str, numbers: tuple[float, ...], error: str, tmp_path: Path) -> None:
    """float64 is rounded; the shorter ones are exact, and their own rounding is of the file."""
    program, [warning] = read(tmp_path, model(kind))
    np.testing.assert_array_equal(program.tensors["w"].array, np.array(numbers, np.float32))
    assert name in warning.cause
    assert warning.facts == (("initializers", "1, 4 elements"), ("rounding error", error))


def test_float32_is_silent(tmp_path: Path) -> None:
    """Nothing is said of what stays."""
    assert read(tmp_path, model(TensorProto.FLOAT))[1] == []


def test_inputs_and_outputs(tmp_path: Path) -> None:
    """Those in float16 are named."""
    _, [warning] = read(tmp_path, model(TensorProto.FLOAT16, end=TensorProto.FLOAT16))
    assert ("inputs, outputs", "x, y") in warning.facts


def test_overflow(tmp_path: Path) -> None:
    """A float64 beyond float32 is refused."""
    with raises(ShapeMismatch, "constant 'w' holds 1e+39", "float32 cannot hold"):
        read(tmp_path, model(TensorProto.DOUBLE, (1.0, 1e39)))


@pytest.mark.parametrize("opset", [17, 11])
def test_said_once(opset: int, tmp_path: Path) -> None:
    """One warning of each kind where the training graph takes nodes as they are, and where it has other forms."""
    weight = helper.make_tensor("w", TensorProto.DOUBLE, (4,), NUMBERS)
    nodes = (node("Add", ("x", "w"), ("s",)), node("Softmax", ("s",), ("y",), axis=1))
    ends = (value("x", (2, 4)),), (value("y", (2, 4)),)
    path = Model(nodes, *ends, (weight,), infos=(value("s", (4, 2)),), opsets=(("", opset),)).save(
        tmp_path / "net.onnx"
    )
    found: list[DeployerWarning] = []
    build_train_graph(path, "mse", "sgd", 0.01, "w", tmp_path, samples=1, warn=found.append)
    assert len(found) == 2
    assert "float64" in found[0].cause
    assert "'s' is declared with another type" in found[1].cause


def test_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train-graph` says so, too, and trains the weights in float32."""
    path = model(TensorProto.BFLOAT16).save(tmp_path / "net.onnx")
    assert deployer("train-graph", path, "--loss", "mse", "--samples", 1, "--trainable", "w", "-o", tmp_path) == 0
    assert "what the file has in bfloat16 is float32 here" in capsys.readouterr().err
    with np.load(tmp_path / "net_train" / "inputs.npz") as arrays:
        assert arrays["arr_0002"].dtype == np.float32
