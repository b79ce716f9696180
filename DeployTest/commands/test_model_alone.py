"""A model's file in the place of a case: its inputs are drawn, and the float64 reference says what must come out."""

from pathlib import Path

import pytest

from DeployTest.fitting.runs import small_model
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.small_graphs import INT64, Model, node, value

pytestmark = [pytest.mark.host, pytest.mark.models]


def test_model_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`infer` runs it, `compile` stops at its C; an integer input that chooses nothing cannot be drawn."""
    monkeypatch.chdir(tmp_path)
    model = small_model(tmp_path)
    assert deployer("infer", "-t", model) == 0
    assert "tensors: 1" in capsys.readouterr().out
    assert deployer("compile", "-t", model, "-o", tmp_path / "c") == 0
    assert (tmp_path / "c" / "InferenceNetwork.c").read_bytes() == (
        tmp_path / "out" / "small" / "host" / "InferenceNetwork.c"
    ).read_bytes()
    inputs = (value("x", (2, 3), INT64),)
    strange = Model((node("Cast", ("x",), ("y",), to=1),), inputs, (value("y", (2, 3)),)).save(tmp_path / "i.onnx")
    assert "no sample values for the integer input 'x'" in refused(capsys, "infer", "-t", strange)
