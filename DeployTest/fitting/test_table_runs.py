"""Commands that read tables: what is said of columns and classes, what a run keeps of them, what is refused."""

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.fitting.call import fit
from deployer.fitting.fit import Fitted
from DeployTest.fitting.runs import BATCH
from DeployTest.models.parts.dense import dense
from DeployTest.support.building.command_line import bits, deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
Capture = pytest.CaptureFixture[str]
ROWS = [(0.5, 1, "dog"), (-2, 1e-1, "cat"), (3, 4, "dog"), (0, 0, "emu"), (1.25, -7, "cat"), (2, 2, "emu")]
CLASSES = ("cat", "dog", "emu")


def _csv(path: Path, words: bool, first: str = "Label,a,b") -> Path:
    rows = (f"{kind if words else CLASSES.index(kind)},{a},{b}\n" for a, b, kind in ROWS)
    path.write_text("".join([first + "\n", *rows]))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two numbers."""
    return dense(tmp_path_factory.mktemp("model") / "small.onnx", (2, 3), ("layer",), BATCH, 0, relu=False)


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one output."""
    return dense(tmp_path_factory.mktemp("model") / "one.onnx", (2, 1), ("layer",), BATCH, 0, relu=False)


def _fit(model: Path, data: Any, folder: Path, **more: Any) -> Fitted:
    return fit(model, data, "cross_entropy", folder=folder, check_passes=1, **more)


def test_command(model: Path, tmp_path: Path, capsys: Capture) -> None:
    """Columns and classes are printed once, are a line of JSON, and are in the report, which obeys its schema.

    Weights are those of the same numbers in an archive.
    """
    data = _csv(tmp_path / "data.csv", True)
    words = ["fit", model, "--data", data, "--loss", "cross_entropy", "--validation", data, "--check-passes", 1]
    assert deployer(*words, "-o", tmp_path / "a") == 0
    shown = capsys.readouterr().out
    line = f"{data}: 6 samples, inputs 'a', 'b', target 'Label'\n{data}: classes 0 'cat', 1 'dog', 2 'emu'\n"
    assert shown.startswith(line * 2), "of the samples that are trained, and of those that are validated"
    assert deployer(*words, "-o", tmp_path / "b", "--json") == 0
    event = json.loads(capsys.readouterr().out.splitlines()[0])
    record = json.loads((tmp_path / "b/report.json").read_text())
    taken = {"kind": "table", "samples": 6, "inputs": ["a", "b"], "target": "Label", "headings": True, "words": True}
    assert event == {"event": "data", "source": str(data), **taken, "classes": list(CLASSES)}
    assert (record["data"], record["validation"], record["classes"]) == (taken, taken, list(CLASSES))
    assert deployer("schema", "fit-report") == 0
    fastjsonschema.compile(json.loads(capsys.readouterr().out))(record)
    x, y = np.array([row[:2] for row in ROWS]), np.array([CLASSES.index(row[2]) for row in ROWS])
    np.savez(tmp_path / "data.npz", input=x, labels=y)
    assert deployer(*words[:3], tmp_path / "data.npz", *words[4:6], "-o", tmp_path / "c") == 0
    assert f"{tmp_path / 'data.npz'}: 6 samples, inputs 'input', target 'labels'\n" in capsys.readouterr().out
    assert bits(tmp_path / "a/trained.npz") == bits(tmp_path / "c/trained.npz")
    record = json.loads((tmp_path / "c/report.json").read_text())
    assert (record["data"]["kind"], record["data"]["inputs"], record["validation"]) == ("arrays", ["input"], None)


def test_named_column(model: Path, tmp_path: Path, capsys: Capture) -> None:
    """The option names the target, on the command line, in a file of options and in Python; else it is refused."""
    data = _csv(tmp_path / "data.csv", True, "kind,a,b")
    words = ["fit", model, "--data", data, "--loss", "cross_entropy", "-o", tmp_path / "a"]
    message = refused(capsys, *words)
    assert "headings       'kind', 'a', 'b'" in message
    assert "--target-column NAME" in message
    assert deployer(*words, "--target-column", "kind", "--check-passes", 1) == 0
    assert "target 'kind'" in capsys.readouterr().out
    (tmp_path / "options.toml").write_text('[fit]\ntarget-column = "kind"\n')
    assert deployer(*words, "--config", tmp_path / "options.toml", "--check-passes", 1) == 0
    fitted = _fit(model, data, tmp_path / "b", target_column="kind")
    assert (fitted.classes, fitted.data and fitted.data.target) == (CLASSES, "kind")
    arrays = {"input": np.ones((4, 2), np.float32), "labels": np.zeros(4, np.int64)}
    with pytest.raises(OptionProblem, match="--target-column has no effect"):
        _fit(model, arrays, tmp_path / "c", target_column="kind")


def test_resumed(model: Path, tmp_path: Path) -> None:
    """A run goes on with the same words alone: others of the same numbers have another meaning."""
    data = _csv(tmp_path / "data.csv", True)
    _fit(model, data, tmp_path / "run")
    assert len(_fit(model, data, tmp_path / "run", resume=True, epochs=2).rows) == 2
    data.write_text(data.read_text().replace("dog", "cow"))
    with pytest.raises(OptionProblem, match="data differs"):
        _fit(model, data, tmp_path / "run", resume=True, epochs=2)


def test_places(model: Path, tmp_path: Path, capsys: Capture) -> None:
    """A class that the model does not have is named by row and column, wherever a split has put the row."""
    data = _csv(tmp_path / "data.csv", False)
    data.write_text(data.read_text() + "3,1,1\n")
    words = ["--data", data, "--loss", "cross_entropy", "-o", tmp_path / "out"]
    for command, *more in (("fit",), ("fit", "--validation", 0.5), ("train-graph",)):
        message = refused(capsys, command, model, *words, *more)
        assert "holds label 3, outside the classes" in message
        assert "at             row 7, column 'Label'" in message
    data.write_text("0,0,0\n" * 6 + "1,1,3\n")
    assert "at             row 7, column 3" in refused(capsys, "fit", model, *words)


def test_whole_targets_of_floats(regression: Path, tmp_path: Path) -> None:
    """A loss over floats takes a column of whole numbers; words are refused by place, in every command."""
    (tmp_path / "data.csv").write_text("a;b;y\n1;2;3\n4;5;6\n7;8;9\n1;1;1\n")
    fitted = fit(regression, tmp_path / "data.csv", "mse", folder=tmp_path / "run", check_passes=1)
    assert fitted.verdict == "passed"


def test_train_graph(model: Path, tmp_path: Path, capsys: Capture) -> None:
    """The case of a table is that of the same numbers in an archive; columns and classes are said."""
    data = _csv(tmp_path / "data.csv", True, "kind,a,b")
    words = ["train-graph", model, "--loss", "cross_entropy", "--data"]
    column = ["--target-column", "kind"]
    assert deployer(*words, data, *column, "-o", tmp_path / "a") == 0
    shown = capsys.readouterr()
    assert "data: 6 samples, inputs 'a', 'b', target 'kind'\ndata: classes 0 'cat', 1 'dog', 2 'emu'\n" in shown.out
    assert "6 samples are not a multiple of the batch size 4" in shown.err
    x, y = np.array([row[:2] for row in ROWS]), np.array([CLASSES.index(row[2]) for row in ROWS])
    np.savez(tmp_path / "data.npz", input=x, labels=y)
    assert deployer(*words, tmp_path / "data.npz", "-o", tmp_path / "b", "--json") == 0
    end = json.loads(capsys.readouterr().out)
    assert (end["data"]["inputs"], end["data"]["target"], end["classes"]) == (["input"], "labels", [])
    for name in ("inputs.npz", "outputs.npz"):
        assert bits(tmp_path / "a/small_train" / name) == bits(tmp_path / "b/small_train" / name)
    assert "--target-column has no effect" in refused(
        capsys, *words, tmp_path / "data.npz", *column, "-o", tmp_path / "c"
    )
    assert "--target-column has no effect" in refused(capsys, *words[:-1], *column, "-o", tmp_path / "c")
