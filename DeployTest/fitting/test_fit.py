"""Whole runs: the bits of `deployer train`, checkpoints and their refusal, metrics, ends, and the way back."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import fastjsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from deployer import pipeline
from deployer.core.errors import DatasetMismatch, FileProblem, GraphProblem, OptionProblem
from deployer.fitting.call import fit
from deployer.fitting.export import export_weights
from deployer.fitting.fit import Fitted
from deployer.fitting.history import ACCURACY, LOSS
from deployer.running.run import Outcome
from deployer.training.order import Order
from deployer.training.train_graph import build_train_graph
from DeployTest.fitting.runs import BATCH, OPTIONS, SAMPLES, WIDTHS, Stops, files, small_data, small_fit, small_model
from DeployTest.models.parts.dense import dense
from DeployTest.support.building.cases import compile_case
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's file."""
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model: Path) -> tuple[Path, Fitted]:
    """A run from begin to end, with other samples for validation."""
    folder = tmp_path_factory.mktemp("whole")
    held_out = small_data() | {}
    return folder, small_fit(folder, model, validation=held_out, check_passes=4)


@pytest.mark.slow
def test_bits_of_train(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Every loss and every weight has the bits that `deployer train` has for the same passes, under the simulator."""
    order, data = Order(SAMPLES, BATCH, OPTIONS["seed"]), small_data()
    passes = OPTIONS["epochs"] * order.passes
    assert passes == OPTIONS["epochs"] * 4, "thirteen samples are four batches of four"
    rows = [order.indices(index) for index in range(passes)]
    batches = {name: np.stack([array[row] for row in rows]) for name, array in data.items()}
    report = build_train_graph(
        model, "cross_entropy", OPTIONS["optimizer"], OPTIONS["lr"], "", tmp_path,
        data=batches, n_accum=OPTIONS["accumulate_grad_batches"], n_batches=passes,
    )  # fmt: skip
    outcome: Outcome = compile_case(pipeline.load_training(report.train), tmp_path / "c", "auto", 64000).run()
    fitted = whole[1]
    assert fitted.losses == outcome.losses
    for name, original in report.trained.items():
        assert fitted.weights[original].tobytes() == outcome.arrays[name].tobytes(), original
    assert (fitted.verdict, fitted.faults) == ("passed", ())
    assert "4 passes checked" in fitted.checked


@pytest.mark.slow
def test_validation_is_the_models_own(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Exported weights in ONNX Runtime give the last validation's accuracy, and cross entropy in float64 its loss."""
    out, data = tmp_path / "trained.onnx", small_data()
    names = export_weights(model, whole[0] / "trained.npz", out)
    assert names == ("first.weight", "first.bias", "second.weight", "second.bias")
    session = onnxruntime.InferenceSession(out)
    rows = np.arange(16) % SAMPLES
    scores = np.concatenate([session.run(None, {"input": data["input"][rows[i : i + 4]]})[0] for i in range(0, 16, 4)])
    wide = scores[:SAMPLES].astype(np.float64)
    loss = np.mean(np.log(np.exp(wide).sum(1)) - wide[np.arange(SAMPLES), data["labels"]])
    last = whole[1].rows[-1].metrics
    assert last[ACCURACY] == np.mean(wide.argmax(1) == data["labels"])
    assert last[LOSS] == pytest.approx(loss, abs=1e-6)
    assert [row.passes for row in whole[1].rows] == [4, 8, 12]
    by_checkpoint = tmp_path / "again.onnx"
    export_weights(model, whole[0] / "checkpoint.safetensors", by_checkpoint)
    assert by_checkpoint.read_bytes() == out.read_bytes()
    with pytest.raises(OptionProblem, match="exists"):
        export_weights(model, whole[0] / "trained.npz", out)
    other = small_model(tmp_path)
    np.savez(tmp_path / "odd.npz", **{"first.weight": np.ones((2, 2), np.float32)})
    with pytest.raises(DatasetMismatch, match="another shape"):
        export_weights(other, tmp_path / "odd.npz", tmp_path / "odd.onnx")
    np.savez(tmp_path / "none.npz", nothing=np.ones(1))
    with pytest.raises(DatasetMismatch, match="no array for an initializer"):
        export_weights(other, tmp_path / "none.npz", tmp_path / "odd.onnx")
    assert not (tmp_path / "odd.onnx").exists()


@pytest.mark.slow
def test_resumed(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Interrupted in an open update, in the middle of an epoch and near the end, and made longer: the same
    files in the end as of a run that had all epochs from the start.
    """
    options = {"validation": small_data(), "check_passes": 1, "checkpoint_every": 1}
    for epochs, after in ((2, 5), (2, 99), (3, 11)):
        resume = (tmp_path / "checkpoint.safetensors").exists()
        with contextlib.suppress(KeyboardInterrupt):
            small_fit(tmp_path, model, **options, epochs=epochs, callback=Stops(after), resume=resume)
    fitted = small_fit(tmp_path, model, **options, resume=True)
    assert fitted.losses == whole[1].losses
    assert files(tmp_path) == files(whole[0])


@pytest.mark.slow
def test_refused_checkpoints(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """A damaged checkpoint, other data, another rate: refused with the reason, and nothing is changed."""
    folder = whole[0]
    path, before = folder / "checkpoint.safetensors", files(folder)
    for more, word in (({"lr": 0.5}, "task differ"), ({"seed": 4}, "sample order differ")):
        with pytest.raises(OptionProblem, match=word):
            small_fit(folder, model, validation=small_data(), resume=True, **more)
    with pytest.raises(OptionProblem, match="validation differs"):
        small_fit(folder, model, resume=True)
    path.write_bytes(before[path.name][:-3])
    with pytest.raises(FileProblem, match="truncated"):
        small_fit(folder, model, validation=small_data(), resume=True)
    assert path.read_bytes() == before[path.name][:-3]
    path.write_bytes(before[path.name])
    assert files(folder) == before
    with pytest.raises(FileProblem, match="start without --resume"):
        small_fit(tmp_path / "new", model, resume=True)
    assert not (tmp_path / "new").exists()


def _killed(model: Path, folder: Path, kills: int, options: str, seed: int) -> int:
    """Start a run as a process again and again, and kill it at random times; how often it was killed."""
    words = f"from DeployTest.fitting.runs import *; from pathlib import Path; small_fit(Path({str(folder)!r}), "
    words += f"Path({str(model)!r}), resume=(Path({str(folder)!r}) / 'checkpoint.safetensors').is_file(), {options})"
    draw, count = random.Random(seed), 0
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", words], stderr=subprocess.PIPE, start_new_session=True)
        begin = time.monotonic()
        checkpoint = folder / "checkpoint.safetensors"
        known = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and time.monotonic() - begin < 60:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != known:
                break
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.01))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            count += 1
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
    end = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr
    return count


@pytest.mark.slow
def test_killed_once(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """SIGKILL while checkpoints are written, inside of open updates too: the bits of a run that nobody disturbed."""
    assert _killed(model, tmp_path, 1, "checkpoint_every=1, check_passes=0, validation=small_data()", 0) == 1
    assert files(tmp_path) == files(whole[0])


@pytest.mark.slow
def test_killed_often(model: Path, tmp_path: Path) -> None:
    """The same fifty times in one run, whose updates are means over five passes, the last one over four."""
    options = {
        "checkpoint_every": 1,
        "epochs": 401,
        "check_passes": 0,
        "accumulate_grad_batches": 5,
        "accumulate": "mean",
        "partial_accumulation": "apply",
    }
    assert _killed(model, tmp_path / "killed", 50, ", ".join(f"{k}={v!r}" for k, v in options.items()), 1) == 50
    small_fit(tmp_path / "whole", model, **options)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.slow
def test_ends(model: Path, tmp_path: Path) -> None:
    """A few samples learned by heart or not, an epoch too many without getting better, and a loss that is no number."""
    learned = small_fit(tmp_path, model, overfit=4, bound=0.2, epochs=200, accumulate_grad_batches=1, check_passes=0)
    assert learned.verdict == "unchecked"
    assert learned.rows[-1].metrics[LOSS] < 0.2 <= learned.rows[-2].metrics[LOSS]
    lost = small_fit(tmp_path, model, overfit=4, bound=0.001, epochs=2, accumulate_grad_batches=1, check_passes=0)
    assert lost.verdict == "failed"
    assert lost.faults[0].startswith("the loss on 4 samples is not below 0.001: ")
    wild = small_fit(
        tmp_path, model, optimizer="sgd", lr=1e30, any_rate=True, epochs=9, accumulate_grad_batches=1, check_passes=0
    )
    assert (wild.verdict, len(wild.losses) < 36) == ("failed", True)
    assert "diverged in pass" in wild.faults[0]
    assert not (tmp_path / "trained.npz").exists(), "neither of this run nor of the one before"
    held_out = small_data()
    held_out["labels"] = (held_out["labels"] + 1) % 3
    early = small_fit(tmp_path, model, validation=held_out, patience=2, epochs=50, check_passes=0)
    values = [row.metrics[LOSS] for row in early.rows]
    assert len(values) < 50
    assert min(values) == values[-3]
    assert any((early.best[name] != early.weights[name]).any() for name in early.best)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"monitor": "speed"}, "nothing measures 'speed'"),
        ({"monitor": ACCURACY}, "nothing measures 'accuracy'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"overfit": 2, "validation": 0.5}, "validation has no effect"),
        ({"validation": 0.5, "validation_target": Path("y.npy")}, "validation_target has no effect"),
        ({"validation": 1, "validation_target": Path("y.npy")}, "validation_target has no effect"),
        ({"target_data": Path("y.npy")}, "y.npy has no effect"),
        ({"colour": 1}, "no argument 'colour'"),
        ({"drop_last": True, "batch": 3}, "no argument 'batch'"),
    ],
)
def test_options_without_meaning(more: dict[str, object], word: str, model: Path, tmp_path: Path) -> None:
    """They are refused before anything is compiled."""
    with pytest.raises(OptionProblem, match=word):
        small_fit(tmp_path / "run", model, **more)
    assert not (tmp_path / "run").exists()


def test_labels_are_classes(model: Path, tmp_path: Path) -> None:
    """A label that is no class is refused, as of any other case."""
    data = small_data()
    data["labels"][5] = 3
    with pytest.raises(DatasetMismatch, match="holds label 3"):
        small_fit(tmp_path, model, validation=data)


def test_batches_without_labels(model: Path, tmp_path: Path) -> None:
    """A batch, or a validation set, of whose labels none counts is refused before anything is compiled."""
    data = small_data()
    ignored = {"ignore_index": -1, "shuffle": False}
    data["labels"][8:12] = -1
    with pytest.raises(DatasetMismatch, match="the batch of pass 2 has no counted label"):
        fit(model, data, "cross_entropy", folder=tmp_path, **{**OPTIONS, **ignored})
    with pytest.raises(DatasetMismatch, match="the validation set has no counted label"):
        small_fit(tmp_path, model, validation=data | {"labels": np.full(SAMPLES, -1)}, **ignored)
    assert not (tmp_path / "code").exists()


def test_watch_belongs_to_the_run(model: Path, tmp_path: Path) -> None:
    """The best value so far is of one metric, on one model: a run that watches another, or asks another, is refused."""
    options = {"validation": small_data(), "epochs": 1, "check_passes": 0}
    small_fit(tmp_path, model, **options)
    with pytest.raises(OptionProblem, match="monitor differs"):
        small_fit(tmp_path, model, **options, monitor=ACCURACY, resume=True)
    again = small_model(tmp_path)
    changed = onnx.load(again)
    changed.doc_string = "another file"
    onnx.save(changed, again)
    with pytest.raises(OptionProblem, match="evaluated differs"):
        small_fit(tmp_path, model, **options, evaluated=again, resume=True)


def test_other_models_for_validation(model: Path, tmp_path: Path) -> None:
    """One without a trained weight is refused before anything is done."""
    lacking = dense(tmp_path / "lacking.onnx", WIDTHS, ("one", "two"), BATCH, 0, relu=True)
    with pytest.raises(GraphProblem, match=r"validation runs has no initializer 'first\.weight'"):
        small_fit(tmp_path / "run", model, validation=small_data(), evaluated=lacking)
    assert not (tmp_path / "run").exists()


def test_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command trains, on another machine the same bits, speaks in lines of JSON, and keeps quiet."""
    np.savez(tmp_path / "data.npz", **small_data())
    words = ["fit", model, "--data", tmp_path / "data.npz", "--loss", "cross_entropy", "--optimizer", "adam"]
    words += ["--lr", 0.02, "--accumulate-grad-batches", 2, "--n-steps", 5, "--seed", 3, "--check-passes", 1]
    words += ["--accumulate", "mean", "--partial-accumulation", "apply"]
    assert deployer(*words, "-o", tmp_path / "a", "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [events[0]["event"], events[1]["event"], events[-1]["event"]] == ["data", "begin", "end"]
    assert (events[0]["inputs"], events[0]["target"], events[0]["samples"]) == (["input"], "labels", SAMPLES)
    assert (events[-1]["verdict"], events[-1]["passes"]) == ("passed", 5)
    assert "incomplete accumulation window at the end, applied: 1 of 2 passes" in events[-1]["notes"]
    assert deployer(*words, "-o", tmp_path / "b", "--quiet", "-p", "host") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    record = json.loads((tmp_path / "a" / "report.json").read_text())
    assert deployer("schema", "fit-report") == 0
    fastjsonschema.compile(json.loads(capsys.readouterr().out))(record)
    assert (record["verdict"], record["passes"], record["ended"]) == ("passed", 5, "")
    checks, text = record["checks"], (tmp_path / "a" / "report.html").read_text()
    assert events[-1]["checks"] == checks
    assert (checks["passes"], checks["explained"], [row["index"] for row in checks["rows"]]) == (5, 0, [0])
    assert 0 < checks["rows"][0]["severity"] < 1
    assert f"at most {100 * checks['rows'][0]['severity']:.2g} % of the bound (pass 0, " in text
    assert [row["passes"] for row in record["epochs"]] == [4]
    page = (tmp_path / "a" / "report.html").read_text()
    assert not re.search("http|<script|<link|url\\(", page), "it works offline"
    sections = dict(re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", page, re.DOTALL))
    pictures = {"Loss": 1, "Epochs": 0, "Gradient norms": 1, "Drift": 2, "Timeline of a pass": 1, "Roofline": 1}
    pictures |= {"Memory: RAM": 1, "Steps": 0}
    assert {title: body.count('class="frame') for title, body in sections.items()} == pictures
    steps = sections["Steps"].count("<tr>") - 1
    names, bars = sections["Timeline of a pass"].split('<svg class="open"')
    assert len(set(re.findall(r'<text [^>]*y="([\d.]+)"', names))) == steps, "a row of the timeline for each step"
    ends = [float(x) + float(w) for x, w in re.findall(r'<rect [^>]*x="([\d.]+)%"[^>]* width="([\d.]+)%"', bars)]
    assert 50 < max(ends) <= 100.01, "all cycles lie in the picture, and fill it"
    words += ["-o", tmp_path / "c"]
    assert "is not a fraction" in refused(capsys, *words, "--validation", "1.5")
    limits = ["-p", "host", "--budget", "L1=2000"]
    assert "level L1 has the budgets" in refused(capsys, *words, *limits, "--budget", "L1=3000")
    assert "y.npy has no effect" in refused(capsys, *words, "--target", "y.npy")
    assert not (tmp_path / "c").exists()


def test_command_export(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says how many tensors it replaced."""
    for names, count in ((["first.bias"], "1 tensor from"), (["first.bias", "second.bias"], "2 tensors from")):
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
        np.savez(tmp_path / "w.npz", **{name: arrays[name] + 1 for name in names})
        assert deployer("export", model, "--weights", tmp_path / "w.npz", "-o", tmp_path / "out.onnx", "--force") == 0
        assert f"out.onnx: {count}" in capsys.readouterr().out
