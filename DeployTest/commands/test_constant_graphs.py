"""Inference graphs that fold wholly to constants, on the command line: programs without steps, or a refusal by name."""

import json
from pathlib import Path

import numpy as np
import pytest

from DeployTest.support.building.command_line import deployer, figures, generated, refused
from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value

pytestmark = [pytest.mark.host, pytest.mark.models]

SUM = Model(
    (node("Add", ("a", "b"), ("y",)),),
    (),
    (value("y", (4,)),),
    (constant("a", np.array([1, 2, 3, 4], np.float32)), constant("b", np.array([0.5, 0.5, 0.5, 0.5], np.float32))),
)
SHAPE = Model((node("Shape", ("x",), ("y",)),), (value("x", (2, 3)),), (value("y", (2,), INT64),))
CONSTANT = Model((), (value("x", (2,)),), (value("a", (2,)),), (constant("a", np.array([7, 8], np.float32)),))
CASES = {
    "a sum": (SUM, np.array([1.5, 2.5, 3.5, 4.5], np.float32)),
    "a shape": (SHAPE, np.array([2, 3], np.int64)),
    "a constant": (CONSTANT, np.array([7, 8], np.float32)),
}


def save_case(model: Model, expected: np.ndarray, folder: Path) -> Path:
    """The case of a model with one output."""
    model.save(folder / "network.onnx")
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.inputs}
    np.savez(folder / "inputs.npz", **{name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    np.savez(folder / "outputs.npz", **{model.outputs[0].name: expected})
    return folder


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """The case of a sum of two constants, of 16 bytes."""
    return save_case(*CASES["a sum"], tmp_path / "case")


@pytest.mark.parametrize(("model", "expected"), CASES.values(), ids=CASES)
def test_constant_outputs(
    model: Model, expected: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The outputs are dumped as they were folded, in no cycle, and a wrong expectation fails."""
    case = save_case(model, expected, tmp_path / "case")
    words = ["infer", "-t", case, "-o", tmp_path / "c", "--tolerance", "0"]
    capsys.readouterr()
    assert deployer(*words, "--profileTiling", "--plotMemAlloc", "--verbose", "--dump", tmp_path / "d.npz") == 0
    assert figures(capsys.readouterr().out)["infer_cycles"] == "0"
    assert json.loads((tmp_path / "c" / "plan.json").read_text())["body"]["steps"] == []
    with np.load(tmp_path / "d.npz") as dumped:
        [result] = dumped.values()
    assert np.array_equal(result, expected)
    save_case(model, expected + 1, case)
    assert deployer(*words) == 1


def test_again_from_files(case: Path, tmp_path: Path) -> None:
    """Its plan and its tiling come back as any other's do."""
    assert deployer("infer", "-t", case, "-o", tmp_path / "c") == 0
    assert deployer("infer", "-t", case, "-o", tmp_path / "c", "--skipgen") == 0
    assert deployer("emit", "--plan", tmp_path / "c" / "plan.json", "-o", tmp_path / "e") == 0
    assert deployer("compile", "-t", case, "--from", tmp_path / "c" / "tiling.json", "-o", tmp_path / "f") == 0
    compiled = generated(tmp_path / "c")
    assert generated(tmp_path / "f") == compiled
    emitted = generated(tmp_path / "e")
    assert emitted == {name: compiled[name] for name in emitted}


@pytest.mark.parametrize("outermost", ["L2", "L3"])
def test_outputs_beyond_the_level(
    outermost: str, case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs stay where the harness reads them; the proposed budget is enough, and one byte less is not."""
    words = ["infer", "-t", case, "-o", tmp_path / "c", "--defaultMemLevel", outermost, "--l2"]
    for small in (4, 15):
        message = refused(capsys, *words, small)
        assert "do not fit L2" in message
        assert f"{small} B" in message
        assert "--l2 16" in message
    assert deployer(*words, "16") == 0
