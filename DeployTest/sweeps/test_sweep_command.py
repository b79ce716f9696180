"""`deployer sweep`: its table is the same for any number of workers and after a kill, and its errors say a way out."""

import csv
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
SAMPLES, WIDTH, CLASSES = 24, 5, 3
VARIED = ("--vary", "lr=0.05,0.5", "--vary", "batch-size=4")
MORE = ("--vary", "lr=0.05,0.5", "--vary", "batch-size=4,8")


class Place:
    """Two models of different width, and samples."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data.npz"
        draw = np.random.default_rng(3)
        x = draw.standard_normal((SAMPLES, WIDTH)).astype(np.float32)
        np.savez(self.data, x=x, labels=(x[:, :CLASSES]).argmax(1))
        for hidden in (4, 8):
            shapes = {"w1": (WIDTH, hidden), "w2": (hidden, CLASSES)}
            weights = [
                numpy_helper.from_array(draw.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()
            ]
            nodes = [
                helper.make_node("MatMul", ["x", "w1"], ["a"]),
                helper.make_node("Tanh", ["a"], ["t"]),
                helper.make_node("MatMul", ["t", "w2"], ["y"]),
            ]
            ends = [helper.make_tensor_value_info(n, 1, ["n", s]) for n, s in (("x", WIDTH), ("y", CLASSES))]
            graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
            onnx.save(model, folder / f"net_{hidden}.onnx")

    def words(self, model: str = "net_4.onnx") -> list[object]:
        """The command of a run."""
        data = ["--data", self.data, "--loss", "cross_entropy", "--optimizer", "sgd", "--validation", "0.25"]
        return ["--", "fit", self.folder / model, *data, "--check-passes", "none", "-p", "host_flat"]

    def sweep(self, name: str, *words: object, varied: Sequence[object] = VARIED) -> tuple[int, Path]:
        """Run a sweep; its exit code and folder."""
        out = self.folder / name
        return deployer("sweep", *varied, "-o", out, *words, *self.words()), out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One for all tests."""
    return Place(tmp_path_factory.mktemp("sweep"))


def rows_of(out: Path) -> list[dict[str, str]]:
    """The table."""
    with (out / "table.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def swept(place: Place) -> Path:
    """A sweep of two runs with two workers."""
    code, out = place.sweep("two", "--workers", 2, "--minimize", "validation_loss", "--minimize", "train_cycles")
    assert code == 0
    return out


def test_each_run_is_that_command(place: Place, swept: Path) -> None:
    """The table has the numbers of the report that the same command leaves by itself."""
    rows = rows_of(swept)
    assert [(row["lr"], row["batch-size"]) for row in rows] == [(r, b) for r in ("0.05", "0.5") for b in "4"]
    words = [*place.words()[1:], "--lr", "0.5", "--batch-size", "4", "-o", place.folder / "alone"]
    assert deployer(*words) == 0
    report = json.loads((place.folder / "alone/report.json").read_text())
    assert float(rows[1]["loss"]) == report["epochs"][-1]["loss"]
    assert float(rows[1]["validation_accuracy"]) == report["epochs"][-1]["metrics"]["accuracy"]
    assert len({row["loss"] for row in rows}) == 2


def test_one_worker_has_the_same_table(place: Place, swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a second sweep in the folder of the first runs nothing."""
    code, out = place.sweep("one")
    assert code == 0
    assert (out / "table.csv").read_bytes() == (swept / "table.csv").read_bytes()
    capsys.readouterr()
    assert place.sweep("one", "--json")[0] == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["known"] for line in lines if line["event"] == "run"] == [True] * 2
    assert lines[-1]["event"] == "end"
    assert lines[-1]["outcomes"] == "2 passed"


@pytest.mark.slow
def test_a_killed_sweep_goes_on(place: Place) -> None:
    """Killed once a run has ended, then resumed: the table of a sweep that nobody killed."""
    code, whole = place.sweep("whole", "--workers", 2, varied=MORE)
    assert code == 0
    out = place.folder / "killed"
    words = ["sweep", *MORE, "-o", out, "--workers", 2, *place.words()]
    line = [sys.executable, "-m", "deployer", *map(str, words)]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while process.poll() is None and not list(out.glob("runs/*/result.json")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "table.csv").exists()
    assert 1 <= len(list(out.glob("runs/*/result.json"))) < 4
    assert deployer(*words) == 0
    assert (out / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()


def test_the_page(swept: Path) -> None:
    """A line for each run over an axis for each option and goal, and a point for each run."""
    page = (swept / "sweep.html").read_text()
    texts = [part.partition("</svg>")[0] for part in page.split("<svg ")[1:]]
    pictures = [ElementTree.fromstring(f"<svg {text}</svg>") for text in texts]
    assert len(pictures) == 2
    lines, points = (picture.findall(kind) for picture, kind in zip(pictures, ("polyline", "circle"), strict=True))
    assert (len(lines), len(points)) == (2, 2)
    assert {len(line.attrib["points"].split()) for line in lines} == {4}
    names = {text.text for text in pictures[0].findall("text")}
    assert {"lr", "batch-size", "validation_loss", "train_cycles"} <= names


@pytest.mark.slow
def test_models_and_refusals(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A name in braces stands in a word; a run that does not fit is a row, and the sweep goes on."""
    out = place.folder / "widths"
    words = place.words("net_{width}.onnx")
    words[words.index("host_flat")] = "host"
    varied = ["--vary", "width=4,8", "--vary", "budget=L1=100,L1=65536"]
    assert deployer("sweep", *varied, "-o", out, *words, "--batch-size", 4) == 0
    rows = rows_of(out)
    assert [row["outcome"] for row in rows] == ["refused", "passed"] * 2
    assert "L1" in rows[0]["cause"]
    assert rows[1]["loss"] != rows[3]["loss"]
    assert int(rows[1]["l1_bytes"]) < int(rows[3]["l1_bytes"])
    assert "run 0: width 4, budget L1=100: refused: " in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_of_the_page(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as it stands there."""
    page = (ROOT / "docs/sweeps.md").read_text()
    block = re.search(r"<!-- shown: sweep -->\n```sh\ndeployer (.*?)```\n", page, re.DOTALL)
    assert block
    (tmp_path / "model.onnx").write_bytes((place.folder / "net_8.onnx").read_bytes())
    (tmp_path / "data.npz").write_bytes(place.data.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert deployer(*shlex.split(block[1].replace("\\\n", " "))) == 0
    assert len(rows_of(tmp_path / "sweep")) == 4


@pytest.mark.slow
def test_a_case_on_several_budgets(tmp_path: Path) -> None:
    """The table has the cycles that `train` measures, and its best rows are those that cost less for more memory."""
    case, out = simple_mlp.generate(tmp_path / "case"), tmp_path / "out"
    varied = ["--vary", "l1=4000,8000", "--vary", "buffering=single,auto"]
    goals = ["--minimize", "train_cycles", "--minimize", "l1_bytes"]
    assert deployer("sweep", *varied, *goals, "-o", out, "--", "train", "-t", case, "-p", "host") == 0
    rows = rows_of(out)
    assert len({row["loss"] for row in rows}) == 1
    for row in rows:
        report = json.loads((out / "runs" / row["digest"] / "report.json").read_text())
        assert int(row["train_cycles"]) == report["bench"]["train_cycles"]
        assert int(row["l1_bytes"]) == report["bench"]["l1_bytes"] <= int(row["l1"])


ERRORS = {
    "other command": (["--vary", "a=1", "--", "package", "x"], "deployer package is not swept"),
    "own output": (["--vary", "a=1", "--", "fit", "m.onnx", "-o", "x"], "-o belongs to the sweep"),
    "twice": (["--vary", "lr=1", "--vary", "lr=2", "--", "fit", "m.onnx"], "--vary lr is given twice"),
    "at once": (["--vary", "lr=1", "--at-once", "2", "--", "fit", "m.onnx"], "--at-once has no effect here"),
    "both": (["--vary", "lr=1", "--workers", "2", "--scheduler", "tcp://a", "--", "fit", "m"], "exclude each other"),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs."""
    words, cause = ERRORS[name]
    assert cause in refused(capsys, "sweep", "-o", tmp_path / "out", *words)
    assert not (tmp_path / "out/runs").exists()


def test_an_option_that_the_command_has_not(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named before anything runs."""
    assert place.sweep("none", varied=["--vary", "learning-rate=1,2"])[0] == 2
    assert "unrecognized arguments: --learning-rate" in capsys.readouterr().err
    assert not (place.folder / "none/runs").exists()


def test_a_goal_that_no_run_has(place: Place, swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the columns; the runs are not lost."""
    error = refused(capsys, "sweep", *VARIED, "-o", swept, "--minimize", "accuracy", *place.words())
    assert "no run has a number 'accuracy'" in error
    assert "validation_accuracy" in error
    assert len(list(swept.glob("runs/*/result.json"))) == 2


@pytest.mark.skipif(importlib.util.find_spec("optuna") is not None, reason="Optuna is installed")
def test_without_the_packages(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The errors say what to install, and what does without."""
    optuna = ["--sampler", "optuna", "--runs", 2, "--minimize", "loss"]
    assert "pip install optuna" in refused(capsys, "sweep", *VARIED, *optuna, "-o", place.folder / "o", *place.words())
    dask = ["--scheduler", "tcp://127.0.0.1:1"]
    assert "pip install distributed" in refused(
        capsys, "sweep", *VARIED, *dask, "-o", place.folder / "o", *place.words()
    )


@pytest.mark.cluster
def test_optuna_and_dask(place: Place) -> None:
    """A study has the same table with one worker, two, and on a cluster of two."""
    pytest.importorskip("optuna", reason="Optuna is not installed")
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    varied = ["--vary", "lr=log:0.01:1", "--vary", "batch-size=4,8"]
    study = ["--sampler", "optuna", "--runs", 5, "--at-once", 2, "--maximize", "validation_accuracy"]
    tables = []
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        where = (("--workers", 1), ("--workers", 2), ("--scheduler", cluster.scheduler_address))
        for number, words in enumerate(where):
            code, out = place.sweep(f"study{number}", *study, *words, varied=varied)
            assert code == 0
            tables.append((out / "table.csv").read_text())
    assert tables[0].count("passed") == 5
    assert tables[1:] == tables[:1] * 2
    assert len({line.split(",")[2] for line in tables[0].splitlines()[1:]}) == 5
