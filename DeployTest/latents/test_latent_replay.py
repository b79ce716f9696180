"""Runs on latents: the files of a run without them, a frozen part that no epoch runs, ways back, and refusals."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core import artefact
from deployer.core.errors import OptionProblem
from deployer.core.plan import Plan
from deployer.fitting.call import fit
from deployer.fitting.callback import Callback
from deployer.fitting.fit import Fitted
from deployer.fitting.runs.latents import LatentFeatures
from deployer.fitting.runs.run_files import run_files
from deployer.training.order import Samples
from DeployTest.canonical.nets import NETS, drawn, samples
from DeployTest.fitting.runs import Stops, files, small_data, small_fit, small_model
from DeployTest.quantized.models import FORMATS, TYPES, float_model, quantized_model
from DeployTest.quantized.models import samples as images
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.small_graphs import Model, constant, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.training]
COUNT, BATCH, CLASSES = 14, 4, 5
Data = dict[str, np.ndarray[Any, Any]]


def dropping(batch: int, dropped: str = "c") -> Model:
    """Two frozen layers with a way around the second one, and a trained layer; elements of one value are dropped."""
    read = {name: name for name in ("x", "a", "r", "c", "s")} | {dropped: f"{dropped}_dropped"}
    nodes = [
        node("Dropout", (dropped, "ratio", "trains"), (read[dropped],)),
        node("Gemm", (read["x"], "w1"), ("a",), transB=1),
        node("Relu", (read["a"],), ("r",)),
        node("Gemm", (read["r"], "w2"), ("c",), transB=1),
        node("Add", (read["c"], read["r"]), ("s",)),
        node("Gemm", (read["s"], "head", "bias"), ("y",), transB=1),
    ]
    weights = {"w1": drawn(8, 10), "w2": drawn(8, 8), "head": drawn(CLASSES, 8), "bias": drawn(CLASSES)}
    stored = [constant(name, array) for name, array in weights.items()]
    stored += [constant("ratio", np.float32(0.25)), constant("trains", np.array(True))]
    return Model(nodes, (value("x", (batch, 10)),), (value("y", None),), stored)


def float_net(name: str, trainable: str) -> Callable[[Path], tuple[Path, Data, dict[str, Any]]]:
    """A net of the tests of canonical batches, what is trained of it, and its samples."""

    def made(folder: Path) -> tuple[Path, Data, dict[str, Any]]:
        build = dropping if name == "dropping" else NETS[name][0]
        model = build(BATCH).save(folder / "model.onnx")
        return model, samples("dense" if name == "dropping" else name, COUNT), {"trainable": trainable}

    return made


def quantized_net(form: str) -> Callable[[Path], tuple[Path, Data, dict[str, Any]]]:
    """Images through a block of 8 bits to a layer of floats."""

    def made(folder: Path) -> tuple[Path, Data, dict[str, Any]]:
        last = onnx.load(float_model("residual", folder / "float.onnx")).graph.node[-1].name
        model = quantized_model("residual", form, TYPES[1], folder, (last,))
        x = np.concatenate(list(images("residual", COUNT, 3)))
        return model, {"x": x, "labels": np.arange(COUNT) % CLASSES}, {}

    return made


CASES: dict[str, tuple[Callable[[Path], tuple[Path, Data, dict[str, Any]]], dict[str, Any], dict[str, str]]] = {
    "convolutional": (float_net("convolutional", "w4"), {"validation": 0.3}, {"c3": "float32[4,6]"}),
    "recurrent": (
        float_net("recurrent", "w2"),
        {"accumulate": "mean", "validation": 0.3},
        {"LSTM_/0/1": "float32[6]"},
    ),
    "canonical": (float_net("dense", "w2|b2"), {"canonical_batch": True, "class_balanced": True}, {"r": "float32[24]"}),
    "dropout": (float_net("dropping", "head|bias"), {"dropout": "off"}, {"s": "float32[8]"}),
    **{form: (quantized_net(form), {"validation": 0.3, "train_metrics": True}, {}) for form in FORMATS},
}


def run(folder: Path, model: Path, data: Data, **more: Any) -> Fitted:
    """Train three epochs, with an update after two passes."""
    words = {"optimizer": "adamw", "lr": 0.02, "accumulate_grad_batches": 2, "epochs": 3, "seed": 5, "check_passes": 3}
    return fit(model, data, "cross_entropy", folder=folder, **{**words, **more})


def steps(folder: Path) -> set[str]:
    """The nodes of the file whose steps a program of a run has."""
    plan = artefact.load(Plan, folder / "plan.json")
    return {name for step in plan.steps for name in step.name.split("+")}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", list(CASES))
def test_files_are_those_of_a_run_without(name: str, tmp_path: Path) -> None:
    """Weights, history, checkpoints, the library's files and what was checked have the same bytes."""
    make, options, latents = CASES[name]
    model, data, words = make(tmp_path)
    plain = run(tmp_path / "plain", model, data, **words, **options)
    replayed = run(tmp_path / "replayed", model, data, **words, **options, latent_replay=True)
    assert files(tmp_path / "replayed") == files(tmp_path / "plain")
    assert run_files(tmp_path / "replayed") == run_files(tmp_path / "plain")
    assert (replayed.losses, replayed.checks) == (plain.losses, plain.checks)
    assert replayed.verdict in ("passed", "explained")
    record = replayed.replay
    assert record is not None
    assert plain.replay is None
    if latents:
        assert record.latents == latents
    else:
        assert [kind.split("[")[0] for kind in record.latents.values()] == ["int8"]
        assert record.sample_bytes == 8
    assert record.bytes == COUNT * record.sample_bytes


def test_no_epoch_runs_the_frozen_part(tmp_path: Path) -> None:
    """The program that trains has the steps of the head alone, and that of features those of the frozen part."""
    model, data, words = CASES["convolutional"][0](tmp_path)
    run(tmp_path / "plain", model, data, **words, epochs=1, validation=0.3)
    run(tmp_path / "replayed", model, data, **words, epochs=1, validation=0.3, latent_replay=True)
    frozen = steps(tmp_path / "replayed" / "features")
    for program in ("code", "validation"):
        whole, head = steps(tmp_path / "plain" / program), steps(tmp_path / "replayed" / program)
        assert frozen < whole
        assert head == whole - frozen
    record = json.loads((tmp_path / "replayed" / "report.json").read_text())["replay"]
    assert record["frozen_steps"] >= len(frozen) > 4


def test_wrong_latents_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The passes that are checked are those of the whole program: latents that are slightly wrong fail the run."""
    model, data, words = CASES["convolutional"][0](tmp_path)
    right = LatentFeatures.latents

    def wrong(features: LatentFeatures, of: Samples) -> Data:
        return {name: array * np.float32(1.01) for name, array in right(features, of).items()}

    monkeypatch.setattr(LatentFeatures, "latents", wrong)
    assert run(tmp_path / "run", model, data, **words, epochs=1, latent_replay=True).verdict == "failed"


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("replays", [(True, True), (True, False), (False, True)])
def test_resumed(replays: tuple[bool, bool], tmp_path: Path) -> None:
    """A run that is left goes on with or without latents, to the same files."""
    model, words = small_model(tmp_path), {"trainable": "second", "check_passes": 1}
    small_fit(tmp_path / "whole", model, **words)
    folder = tmp_path / "left"
    with contextlib.suppress(KeyboardInterrupt):
        small_fit(folder, model, **words, checkpoint_every=1, callback=Stops(5), latent_replay=replays[0])
    small_fit(folder, model, **words, resume=True, latent_replay=replays[1])
    assert files(folder) == files(tmp_path / "whole")


class Batches:
    """Source of samples that differ in each epoch."""

    batch, passes, name = 4, 3, "loader"

    def batches(self, epoch: int) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        """Batches with noise of their own."""
        draw = np.random.default_rng(epoch)
        for _ in range(self.passes):
            yield draw.standard_normal((4, 6)).astype(np.float32), np.arange(4) % 3

    def measured(self) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        """The same as in the first epoch."""
        return self.batches(0)


def test_samples_that_change(tmp_path: Path) -> None:
    """Sources whose samples may differ in each epoch, such as augmented images, are refused, also for validation."""
    model, words = small_model(tmp_path), {"trainable": "second", "folder": tmp_path / "run", "latent_replay": True}
    for data, more in ((Batches(), {}), (small_data(), {"validation": Batches()})):
        with raises(OptionProblem, "latent_replay", "in_memory=True"):
            fit(model, data, "cross_entropy", **words, **more)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("place", "trainable", "text"), [("x", "head", "Dropout"), ("c", "w1|head", "'w1'")])
def test_nothing_to_replay(place: str, trainable: str, text: str, tmp_path: Path) -> None:
    """Dropout of the data, or a trained first layer: an error says so, and leaves the files of an earlier run."""
    model, folder = dropping(BATCH, place).save(tmp_path / "model.onnx"), tmp_path / "run"
    run(folder, model, samples("dense", COUNT), trainable="head")
    before = run_files(folder)
    with raises(OptionProblem, "no layer in front", text):
        run(folder, model, samples("dense", COUNT), trainable=trainable, latent_replay=True)
    assert run_files(folder) == before


class Messages(Callback):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.texts = list[str]()

    def on_message(self, text: str) -> None:
        """Keep it."""
        self.texts.append(text)


def test_border_in_front_of_dropout(tmp_path: Path) -> None:
    """With dropout on the way the latents are the values in front of it, and two ways have two latents."""
    model, said = dropping(BATCH).save(tmp_path / "model.onnx"), Messages()
    data = samples("dense", COUNT)
    plain = run(tmp_path / "plain", model, data, trainable="head", validation=0.3)
    more = {"validation": 0.3, "callback": said, "latent_replay": True}
    replayed = run(tmp_path / "replayed", model, data, trainable="head", **more)
    assert files(tmp_path / "replayed") == files(tmp_path / "plain")
    assert replayed.losses == plain.losses
    assert replayed.replay is not None
    assert replayed.replay.latents == {"r": "float32[8]", "c": "float32[8]"}
    assert "Dropout" in replayed.replay.end
    assert [text for text in said.texts if "features took" in text and "an epoch takes" in text]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option says what is kept, and the exported model is the whole one; a refusal names the options."""
    model, words = small_model(tmp_path), ("--loss", "cross_entropy", "--epochs", 2)
    np.savez(tmp_path / "data.npz", **small_data())
    fitted = ("fit", model, "--data", tmp_path / "data.npz", *words)
    for name, more in (("plain", ()), ("replayed", ("--latent-replay",))):
        assert deployer(*fitted, "--trainable", "second", "-o", tmp_path / name, *more) == 0
    out = capsys.readouterr().out
    assert "latents first_relu float32[8]: 32 B a sample, 416 B in all" in out
    for name in ("plain", "replayed"):
        weights, place = tmp_path / name / "trained.npz", tmp_path / f"{name}.onnx"
        assert deployer("export", model, "--weights", weights, "-o", place) == 0
    assert (tmp_path / "replayed.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    message = refused(capsys, *fitted, "-o", tmp_path / "all", "--latent-replay")
    assert "no layer in front of the trained ones is frozen" in message
    assert "--trainable" in message
