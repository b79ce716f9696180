"""Axes without a length: named in one error, and given lengths by flags."""

from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import OptionProblem, ShapeMismatch
from deployer.frontend import check, parse
from deployer.frontend.prepare import NO_AXES, Axes
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.small_graphs import Model, constant, node, raises, value

pytestmark = [pytest.mark.host]
Shape = tuple[str | int, ...]


def net(x: Shape = ("batch", 3), more: Shape = ("batch", 3), batch: str | int = "batch") -> Model:
    """y = (x + more) w."""
    nodes = (node("Add", ("x", "more"), ("s",)), node("MatMul", ("s", "w"), ("y",)))
    weights = (constant("w", np.ones((3, 2), np.float32)),)
    return Model(nodes, (value("x", x), value("more", more)), (value("y", (batch, 2)),), weights)


def types(folder: Path, model: Model, axes: Axes = NO_AXES) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs and output."""
    program = check.check_program(parse.read_graphs(model.save(folder / "network.onnx"), None, axes))
    return {name: program.tensors[name].type.shape for name in (*program.data, *program.outputs)}


def test_lengths(tmp_path: Path) -> None:
    """By --batch-size alone, by names alone, and by both; an axis without a name is a first axis, too."""
    expected = {"x": (4, 3), "more": (4, 3), "y": (4, 2)}
    assert types(tmp_path, net(), Axes(4)) == expected
    assert types(tmp_path, net(), Axes(None, {"batch": 4})) == expected
    assert types(tmp_path, net(), Axes(4, {"batch": 4})) == expected
    assert types(tmp_path, net(("batch", "width"), ("", 3)), Axes(4, {"width": 3})) == expected
    assert types(tmp_path, net((4, 3), ("batch", 3)), Axes(4)) == expected, "a length in the file stays"


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        (net(), ("graph inputs 'x', 'more'", "x     ", "float32 [batch,3]", "--batch-size N, or")),
        (net((1, "width")), ("'x', 'more'", "float32 [1,width]", "--batch-size N --axis width=N")),
        (net((1, 3), (1, "")), ("graph input 'more' has", "float32 [1,?]", "--axis for axes with a name")),
        (net((1, 3), (1, 0)), ("graph input 'more' has", "float32 [1,0]", "a fixed batch size")),
    ],
)
def test_error(model: Model, texts: tuple[str, ...], tmp_path: Path) -> None:
    """It names all inputs, their shapes, and the flags that help."""
    with raises(ShapeMismatch, *texts):
        types(tmp_path, model)


@pytest.mark.parametrize(
    ("axes", "texts"),
    [
        (Axes(None, {"other": 3}), ("--axis other", "x[batch,3], more[batch,3]")),
        (Axes(3, {"batch": 4}), ("axis 'batch' has the lengths 4 and 3",)),
    ],
)
def test_lengths_that_nothing_takes(axes: Axes, texts: tuple[str, ...], tmp_path: Path) -> None:
    """A name that no input has, and two lengths of one axis; a batch where all first axes have lengths."""
    with raises(OptionProblem, *texts):
        types(tmp_path, net(), axes)
    with raises(OptionProblem, "--batch-size has no effect", "x[1,3]"):
        types(tmp_path, net((1, 3), (1, 3)), Axes(2))


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train-graph` makes a case of that batch, and inference takes the flags, too."""
    path = net(("batch", "width")).save(tmp_path / "net.onnx")
    words = ("train-graph", path, "--loss", "mse", "--samples", 2, "-o", tmp_path)
    assert "--batch-size N --axis width=N" in refused(capsys, *words)
    assert deployer(*words, "--batch-size", 5, "--axis", "width=3") == 0
    with np.load(tmp_path / "net_train" / "inputs.npz") as arrays:
        assert arrays["arr_0000"].shape == (5, 3)
    text = refused(capsys, *words, "--axis", "width=3", "--axis", "width=4")
    assert "axis 'width' has the lengths 3 and 4" in text
    case = tmp_path / "case"
    net().save(case / "network.onnx")
    np.savez(case / "inputs.npz", x=np.ones((2, 3), np.float32), more=np.ones((2, 3), np.float32))
    assert "--batch-size N" in refused(capsys, "infer", "-t", case)
    assert deployer("compile", "-t", case, "--batch-size", 2, "-o", tmp_path / "out") == 0
