"""`deployer fleet` without Flower: its rounds beside float64 by hand and beside one device, resuming, and refusals."""

import csv
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from deployer.fleets.device import imported
from deployer.fleets.options import STRATEGIES
from deployer.fleets.rounds import DrawnFaults
from deployer.fleets.splits import parts_of
from DeployTest.fleets.nets import BATCH, CLASSES, RATE, SAMPLES, FleetPlace, report_of, samples, trained
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
DEVICES, ROUNDS = 4, 3
BASE = ("--devices", DEVICES, "--rounds", ROUNDS)
Weights = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> FleetPlace:
    """One for all tests."""
    return FleetPlace(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def averaged(place: FleetPlace) -> Path:
    """A fleet by FedAvg, validated."""
    code, out = place.run("averaged", *BASE, "--validation", place.validation)
    assert code == 0
    return out


def first_weights(place: FleetPlace) -> Weights:
    """The weights of the model's file, in float64."""
    import onnx

    return {
        tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float64)
        for tensor in onnx.load(place.model).graph.initializer
    }


def gradients(weights: Weights, x: np.ndarray, labels: np.ndarray) -> tuple[float, Weights]:
    """Mean cross entropy of the net and its gradients, in float64, by the chain rule."""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"])
    scores = hidden @ weights["w2"]
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    loss = float(-np.log(shares[np.arange(len(x)), labels]).mean())
    back = (shares - np.eye(CLASSES)[labels]) / len(x)
    inner = (back @ weights["w2"].T) * (1 - hidden**2)
    return loss, {"w1": x.T @ inner, "b1": inner.sum(0), "w2": hidden.T @ back}


def by_hand(place: FleetPlace, rounds: int, mu: float = 0.0) -> tuple[Weights, list[float]]:
    """Weights and losses of a fleet by FedAvg or FedProx in float64: local SGD on batches, then the mean by samples."""
    data, weights = samples(SAMPLES, 3), first_weights(place)
    parts, losses = parts_of(SAMPLES, DEVICES, 0), list[float]()
    for number in range(rounds):
        found, seen = list[Weights](), list[float]()
        for device, part in enumerate(parts):
            order = np.random.default_rng([0, device, number]).permutation(len(part))
            own, each = {name: array.copy() for name, array in weights.items()}, list[float]()
            for first in range(0, len(part), BATCH):
                rows = part[order.take(np.arange(first, first + BATCH), mode="wrap")]
                loss, slopes = gradients(own, data["x"][rows].astype(np.float64), data["labels"][rows])
                each.append(loss)
                for name in own:
                    own[name] -= RATE * (slopes[name] + mu * (own[name] - weights[name]))
            found.append(own)
            seen.append(float(np.mean(each)))
        counts = [len(part) for part in parts]
        losses.append(float(np.average(seen, weights=counts)))
        weights = {name: np.average([own[name] for own in found], axis=0, weights=counts) for name in weights}
    return weights, losses


def assert_near(found: Weights, wanted: Weights, start: Weights) -> None:
    """Float32 follows float64 to a ten-thousandth of what was learned."""
    for name, array in wanted.items():
        moved = np.abs(array - start[name]).max()
        assert np.abs(found[name] - array).max() <= 1e-4 * moved, name


def test_rounds_by_hand(place: FleetPlace, averaged: Path) -> None:
    """Weights and losses of three rounds are those of the formulas in float64; the seed's order is as documented."""
    wanted, losses = by_hand(place, ROUNDS)
    assert_near(trained(averaged), wanted, first_weights(place))
    np.testing.assert_allclose([row["loss"] for row in report_of(averaged)["epochs"]], losses, rtol=1e-5)


def test_proximal_term_by_hand(place: FleetPlace, averaged: Path) -> None:
    """FedProx adds the gradient of its term to that of each pass; without it the weights differ by far more."""
    code, out = place.run("prox", *BASE, "--strategy", "fedprox", "--mu", 2)
    assert code == 0
    wanted, _ = by_hand(place, ROUNDS, 2.0)
    assert_near(trained(out), wanted, first_weights(place))
    with pytest.raises(AssertionError):
        assert_near(trained(averaged), wanted, first_weights(place))


def test_rounds_by_the_library(averaged: Path) -> None:
    """A loop over instances of the packaged module has the same bits, and validation is of the global weights."""
    module: Any = imported(averaged / "library", "fleet")
    data, parts = samples(SAMPLES, 3), parts_of(SAMPLES, DEVICES, 0)
    weights = {name: array.copy() for name, array in module.Model().weights.items()}
    for number in range(ROUNDS):
        found = list[Weights]()
        for device, part in enumerate(parts):
            model, order = module.Model(), np.random.default_rng([0, device, number]).permutation(len(part))
            for name, array in weights.items():
                model.weights[name][...] = array
            for first in range(0, len(part), BATCH):
                rows = part[order.take(np.arange(first, first + BATCH), mode="wrap")]
                model.train_step(data["x"][rows], data["labels"][rows].astype(np.int32))
                model.update()
            found.append({name: array.copy() for name, array in model.weights.items()})
        for name in weights:
            total = np.zeros(weights[name].shape)
            for part, own in zip(parts, found, strict=True):
                total += len(part) * own[name].astype(np.float64)
            weights[name] = (total / SAMPLES).astype(np.float32)
    for name, array in trained(averaged).items():
        assert array.tobytes() == weights[name].tobytes(), name
    loss, _ = gradients({n: a.astype(np.float64) for n, a in weights.items()}, *samples(24, 4).values())
    assert report_of(averaged)["epochs"][-1]["metrics"]["loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_gradients_are_those_of_one_device(place: FleetPlace, optimizer: str) -> None:
    """Each device one pass, and one update: the bits of one device that accumulates as many passes."""
    code, out = place.run(f"gradients_{optimizer}", *BASE, "--strategy", "gradients", "--optimizer", optimizer)
    assert code == 0
    module: Any = imported(out / "library", "fleet")
    data, parts, one = samples(SAMPLES, 3), parts_of(SAMPLES, DEVICES, 0), module.Model()
    for number in range(ROUNDS):
        for device, part in enumerate(parts):
            epoch, at = divmod(number, -(-len(part) // BATCH))
            order = np.random.default_rng([0, device, epoch]).permutation(len(part))
            rows = part[order.take(np.arange(at * BATCH, (at + 1) * BATCH), mode="wrap")]
            one.train_step(data["x"][rows], data["labels"][rows].astype(np.int32))
        one.update()
    assert report_of(out)["digest"] == one.digest()
    for name, array in trained(out).items():
        assert array.tobytes() == one.weights[name].tobytes(), name


WAYS = {
    "fedavgm": ("--strategy", "fedavgm", "--server-lr", 0.5, "--per-round", 2),
    "fedadam": ("--strategy", "fedadam", "--compress", "int8"),
    "topk": ("--compress", "topk", "--top-share", 0.2, "--late", 0.2, "--min-replies", 1),
    "gradients": ("--strategy", "gradients", "--optimizer", "adam", "--failing", 0.2, "--min-replies", 1),
    "schedule": ("--lr-scheduler", "cosine", "--split", "shards"),
}


@pytest.mark.matrix(keep=2)
@pytest.mark.parametrize("way", WAYS)
def test_resumed_rounds(place: FleetPlace, way: str) -> None:
    """Two rounds, then resumed to four, have the bits of four; a schedule knows its rounds from the first one on."""
    words = ("--devices", 5, *WAYS[way])
    rounds = 4 if way == "schedule" else 2
    assert place.run(f"{way}_whole", *words, "--rounds", 4)[0] == 0
    code, out = place.run(f"{way}_parts", *words, "--rounds", rounds)
    assert code == 0
    assert place.run(f"{way}_parts", *words, "--rounds", 4, "--resume")[0] == 0
    for name in ("rounds.csv", "trained.npz"):
        assert (out / name).read_bytes() == (place.folder / f"{way}_whole" / name).read_bytes(), name
    assert report_of(out)["digest"] == report_of(place.folder / f"{way}_whole")["digest"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_learns(place: FleetPlace, strategy: str) -> None:
    """Twelve rounds of each lower the validation loss."""
    words = {"fedprox": ("--mu", 0.1), "fedadam": ("--server-lr", 0.05)}.get(strategy, ())
    code, out = place.run(
        strategy, "--devices", 3, "--rounds", 12, "--strategy", strategy, "--validation", place.validation, *words
    )
    assert code == 0
    losses = [row["metrics"]["loss"] for row in report_of(out)["epochs"]]
    assert losses[-1] < 0.9 * losses[0]


def test_who_replied(place: FleetPlace) -> None:
    """Late and failing devices have no part in the model; the table and the report name them."""
    words = ("--devices", 9, "--rounds", 3, "--late", 0.2, "--failing", 0.2, "--killed", 0.1, "--min-replies", 1)
    code, out = place.run("faults", *words)
    assert code == 0
    report = report_of(out)
    with (out / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(len(record["late"]) for record in report["rounds"]) > 0
    assert sum(len(record["failed"]) for record in report["rounds"]) > 0
    for row, record in zip(rows, report["rounds"], strict=True):
        groups = [record["replied"], record["late"], record["failed"]]
        assert sorted(device for group in groups for device in group) == record["asked"] == list(range(9))
        assert [int(row[name]) for name in ("replied", "late", "failed")] == list(map(len, groups))
        assert row["late_devices"].split() == list(map(str, record["late"]))
        assert int(row["samples"]) == sum(report["fleet"]["samples"][device] for device in record["replied"])


def lacking_round(seed: int) -> int:
    """The first round in which a draw lets fewer than eight of nine devices reply."""
    drawn = DrawnFaults(failed=0.15)
    return next(number for number in itertools.count(1) if drawn.of(seed, number, range(9)).count("") < 8)


def test_lacking_replies(place: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """A round that lacks replies ends with an error and the model before it, from which a run may go on."""
    lacking = {seed: lacking_round(seed) for seed in range(99)}
    seed = next(seed for seed, number in lacking.items() if 1 < number <= 6)
    words = ("--devices", 9, "--failing", 0.15, "--seed", seed)
    code, out = place.run("lacking", *words, "--rounds", 6, "--min-replies", 8)
    error = capsys.readouterr().err
    report = report_of(out)
    made = len(report["epochs"])
    assert code == 2
    assert made == lacking[seed] - 1
    assert f"round {made + 1} has " in error
    assert f"the model after round {made} is in" in error
    assert re.search(r"device \d: failed, as drawn", error)
    assert "--resume goes on from there" in error
    assert report["verdict"] == "failed"
    assert report["fault"] in error
    assert place.run("before", *words, "--rounds", made, "--min-replies", 8)[0] == 0
    assert (out / "trained.npz").read_bytes() == (place.folder / "before/trained.npz").read_bytes()
    assert place.run("lacking", *words, "--rounds", 6, "--min-replies", 1, "--resume")[0] == 0
    assert place.run("never", *words, "--rounds", 6, "--min-replies", 1)[0] == 0
    assert (out / "trained.npz").read_bytes() == (place.folder / "never/trained.npz").read_bytes()


def test_no_reply_at_all(place: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """The first round already lacks them: no weights are written, and there is nothing to resume."""
    code, out = place.run("nobody", *BASE, "--killed", 1)
    assert code == 2
    assert "--resume" not in capsys.readouterr().err
    assert not (out / "trained.npz").exists()
    assert report_of(out)["verdict"] == "failed"


def test_only_trained_weights_travel(place: FleetPlace, averaged: Path) -> None:
    """With frozen layers a fleet exchanges the others alone, and compression sends less of them."""
    code, out = place.run("head", *BASE, "--trainable", "^w2$")
    assert code == 0
    assert trained(out).keys() == {"w2"}
    size = trained(out)["w2"].nbytes
    for record in report_of(out)["rounds"]:
        assert record["bytes_up"] == record["bytes_down"] == DEVICES * size
    assert report_of(averaged)["rounds"][0]["bytes_up"] == DEVICES * sum(a.nbytes for a in trained(averaged).values())
    code, out = place.run("bytes", *BASE, "--trainable", "^w2$", "--compress", "int8")
    assert code == 0
    assert {record["bytes_up"] for record in report_of(out)["rounds"]} == {DEVICES * (size // 4 + 4)}


def test_files_of_devices(place: FleetPlace, tmp_path: Path) -> None:
    """A file for each device, in the order of their names, is the same as one file and that split."""
    data, folder = samples(SAMPLES, 3), tmp_path / "devices"
    folder.mkdir()
    for number, part in enumerate(parts_of(SAMPLES, DEVICES, 0)):
        np.savez(folder / f"{number}.npz", **{name: array[part] for name, array in data.items()})
    code, out = place.run("files", "--rounds", 1, "--split", "files", "--data", folder)
    assert code == 0
    assert report_of(out)["fleet"]["samples"] == [16, 15, 15, 15]
    code, other = place.run("one_file", "--rounds", 1, "--devices", DEVICES)
    assert code == 0
    assert (out / "trained.npz").read_bytes() == (other / "trained.npz").read_bytes()


def test_what_goes_on_from_a_fleet(place: FleetPlace, averaged: Path, tmp_path: Path) -> None:
    """A library is packaged of the folder with the fleet's weights, and a model exported, which fit and infer take."""
    assert deployer("package", averaged, "--name", "net", "--no-compile", "-o", tmp_path / "net") == 0
    assert deployer("export", place.model, "--weights", averaged / "trained.npz", "-o", tmp_path / "out.onnx") == 0
    words = ["--data", place.data, "--loss", "cross_entropy", "--batch-size", 4, "--check-passes", "none"]
    assert deployer("fit", tmp_path / "out.onnx", *words, "-o", tmp_path / "fit") == 0
    image = (tmp_path / "net/weights.bin").read_bytes()
    for array in trained(averaged).values():
        assert array.tobytes() in image


def test_the_page(averaged: Path) -> None:
    """Curves of loss, accuracy, devices and bytes, and a table of the rounds."""
    page = (averaged / "fleet.html").read_text()
    texts = [part.partition("</section>")[0] for part in page.split("<section>")[1:]]
    sections = {ElementTree.fromstring(f"<s>{text.partition('</h2>')[0]}</h2></s>")[0].text: text for text in texts}
    assert {"Loss", "Accuracy", "Devices", "Bytes", "Samples of devices", "Rounds"} <= sections.keys()
    assert sections["Rounds"].count("<tr>") == 1 + ROUNDS
    assert "4 of 4" in sections["Rounds"]


def test_lines_of_json(place: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each round, and the last one is the result."""
    assert place.run("json", *BASE, "--json")[0] == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["round"] * ROUNDS + ["end"]
    assert lines[-1]["digest"] == report_of(place.folder / "json")["digest"]
    assert lines[0]["replied"] == list(range(DEVICES))


ERRORS: dict[str, tuple[Callable[[FleetPlace], tuple[object, ...]], str]] = {
    "no devices": (lambda place: (), "--split iid needs --devices"),
    "mu": (lambda place: (*BASE, "--mu", 0.1), "--mu has no effect here"),
    "no mu": (lambda place: (*BASE, "--strategy", "fedprox"), "--strategy fedprox needs --mu"),
    "replies": (lambda place: (*BASE, "--min-replies", 5), "--min-replies 5 is more than a round asks"),
    "per round": (lambda place: (*BASE, "--per-round", 5), "--per-round 5 is more than there are devices"),
    "epochs": (lambda place: (*BASE, "--strategy", "gradients", "--epochs", 2), "--epochs has no effect with"),
    "shares": (lambda place: (*BASE, "--late", 0.6, "--failing", 0.6), "is no share"),
    "concentration": (lambda place: (*BASE, "--concentration", 1), "--concentration has no effect here"),
    "zero": (lambda place: (*BASE, "--split", "dirichlet", "--concentration", 0), "--concentration 0 is not positive"),
    "deadline": (lambda place: (*BASE, "--deadline", 1), "--deadline has no effect with --backend loop"),
    "many": (lambda place: ("--devices", 99), "fewer samples than parts"),
    "resume": (lambda place: (*BASE, "--resume"), "checkpoint.safetensors does not exist"),
    "files": (lambda place: ("--split", "files"), "is not a folder with .npz files"),
    "share": (lambda place: (*BASE, "--compress", "topk", "--top-share", 2), "--top-share 2 is more than all"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, place: FleetPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is told before anything is trained."""
    words, cause = ERRORS[name]
    assert cause in refused(capsys, *place.words(tmp_path / "out", *words(place)))
    assert not (tmp_path / "out/trained.npz").exists()


def test_another_fleet_is_not_resumed(place: FleetPlace, averaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what differs, and nothing is changed."""
    out = place.folder / "other"
    shutil.copytree(averaged, out)
    before = (out / "checkpoint.safetensors").read_bytes()
    words = place.words(out, *BASE, "--validation", place.validation, "--seed", 1, "--resume")
    error = refused(capsys, *words)
    assert "belongs to another run" in error
    assert "seed" in error
    assert (out / "checkpoint.safetensors").read_bytes() == before
