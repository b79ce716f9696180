"""Fleets under Flower: the same bytes by each back end and number of workers; devices that fail, die or are late."""

import importlib.util
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import ToolFailed
from deployer.fleets import flower
from deployer.fleets.device import DeviceReply, DeviceTask
from deployer.fleets.engines import DeviceOutcome, LoopEngine
from deployer.fleets.options import LOOP, PROCESSES, RAY, THREADS
from DeployTest.fleets.nets import FleetPlace, report_of
from DeployTest.support.building.command_line import deployer, refused

FLOWER = importlib.util.find_spec("flwr") is not None
pytestmark = [pytest.mark.host, pytest.mark.training]
needs_flower = pytest.mark.skipif(not FLOWER, reason="Flower is not installed")
ROOT = Path(__file__).resolve().parents[2]
ROUNDS, DEVICES = 3, 6
FAULTS = ("--late", 0.1, "--failing", 0.1, "--killed", 0.15, "--min-replies", 2, "--seed", 3)
WAYS = [(backend, workers) for backend in (THREADS, PROCESSES, RAY) for workers in (1, 2)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> FleetPlace:
    """One for all tests."""
    return FleetPlace(tmp_path_factory.mktemp("flower"))


def fleet(place: FleetPlace, name: str, backend: str, *words: object) -> Path:
    """The folder of a fleet that passed."""
    code, out = place.run(name, "--devices", DEVICES, "--rounds", ROUNDS, "--backend", backend, *words)
    assert code == 0
    return out


@pytest.mark.fleet
@needs_flower
@pytest.mark.parametrize(("backend", "workers"), WAYS)
def test_the_same_bytes(place: FleetPlace, backend: str, workers: int) -> None:
    """Weights and table are those of a loop, with late, failing and killed devices among the others."""
    alone = fleet(place, f"loop_{backend}_{workers}", LOOP, *FAULTS)
    out = fleet(place, f"{backend}_{workers}", backend, "--workers", workers, *FAULTS)
    for name in ("trained.npz", "rounds.csv"):
        assert (out / name).read_bytes() == (alone / name).read_bytes()
    assert report_of(out)["digest"] == report_of(alone)["digest"]
    records = report_of(out)["rounds"]
    assert sum(len(record["failed"]) for record in records)
    assert sum(len(record["late"]) for record in records)


@pytest.mark.fleet
@needs_flower
@pytest.mark.parametrize("words", [("--strategy", "gradients", "--optimizer", "adam"), ("--compress", "topk")])
def test_other_messages(place: FleetPlace, words: Sequence[str]) -> None:
    """Gradients, and what devices keep of compressed updates, go through Flower's messages unchanged."""
    alone = fleet(place, f"loop{words[1]}", LOOP, *words)
    out = fleet(place, f"threads{words[1]}", THREADS, "--workers", 2, *words)
    assert (out / "checkpoint.safetensors").read_bytes() == (alone / "checkpoint.safetensors").read_bytes()


@pytest.mark.fleet
@needs_flower
@pytest.mark.parametrize("backend", [THREADS, PROCESSES, RAY])
def test_killed_devices_are_no_success(place: FleetPlace, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed devices leave a round without enough replies: the exit code is 2, and the error names them."""
    words = ["--devices", DEVICES, "--rounds", ROUNDS, "--killed", 0.3, "--seed", 4, "--backend", backend]
    code, out = place.run(f"killed_{backend}", *words)
    error = capsys.readouterr().err
    assert code == 2
    assert "replies, and needs 6" in error
    assert "device" in error
    assert report_of(out)["verdict"] == "failed"


class SlowDevices:
    """Devices of which one sleeps in a round."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def work(self, task: DeviceTask) -> DeviceReply:
        """Add the device's number to the weights."""
        if (task.device, task.round) == (1, 2):
            time.sleep(self.seconds)
        return DeviceReply(task.device, {"w": task.weights["w"] + np.float32(task.device)}, 3, 1, 0.5)


@pytest.mark.fleet
@needs_flower
def test_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that sleeps is late; its reply comes in the next round, and is taken for none of that round's."""
    monkeypatch.setattr(flower, "devices_of", lambda rules: SlowDevices(3.0))
    found = dict[int, list[DeviceOutcome]]()

    def server(ask: Any) -> None:
        for number in (1, 2, 3):
            weights = {"w": np.full(4, 100 * number, np.float32)}
            found[number] = ask([DeviceTask(d, number, weights) for d in range(4)], 2.0 if number == 2 else None)

    rules: Any = None
    flower.flower_engine(THREADS, 2).play(rules, 4, server)
    for number, outcomes in found.items():
        late = {o.device for o in outcomes if o.outcome == "late"}
        assert late == ({1} if number == 2 else set())
        for outcome in (o for o in outcomes if o.reply):
            assert outcome.reply is not None
            assert outcome.reply.arrays["w"].tolist() == [100 * number + outcome.device] * 4


@pytest.mark.fleet
@needs_flower
def test_a_runtime_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A back end that does not start is an error with its cause, where the server would wait for ever."""

    def broken(self: object, app_fn: object) -> None:
        raise OSError("no workers today")

    monkeypatch.setattr(flower.ThreadBackend, "build", broken)
    rules: Any = None
    with pytest.raises(ToolFailed, match="has ended before the fleet") as caught:
        flower.flower_engine(THREADS, 1).play(
            rules, 2, lambda ask: ask([DeviceTask(0, 1, {"w": np.zeros(1, np.float32)})], None)
        )
    assert "no workers today" in str(caught.value)


@pytest.mark.fleet
@needs_flower
def test_errors_of_the_server_are_raised() -> None:
    """They end the fleet, and the runtime's threads with it."""

    def server(ask: object) -> None:
        raise ToolFailed("the server's own")

    rules: Any = None
    with pytest.raises(ToolFailed, match="the server's own"):
        flower.flower_engine(THREADS, 1).play(rules, 2, server)


def test_an_engine_that_ends_early(place: FleetPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that returns before the last round, without an error, is no success."""
    monkeypatch.setattr(LoopEngine, "play", lambda self, rules, devices, server: None)
    code, out = place.run("early", "--devices", 2, "--rounds", 2)
    assert code == 2
    assert report_of(out)["fault"] == "the engine has ended without an error, before the last round"


@pytest.mark.skipif(FLOWER, reason="Flower is installed")
def test_without_flower(place: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what to install, and what does without."""
    words = place.words(place.folder / "none", "--devices", 2, "--backend", "threads")
    error = refused(capsys, *words)
    assert "flwr is not installed" in error
    assert "pip install 'deployer[fleet]', or --backend loop" in error


@pytest.mark.fleet
@needs_flower
def test_the_command_of_the_page(place: FleetPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as it stands there, on a model with a batch of its own."""
    page = (ROOT / "docs/fleets.md").read_text()
    block = re.search(r"<!-- shown: fleet -->\n```sh\ndeployer (.*?)```\n", page, re.DOTALL)
    assert block
    (tmp_path / "model.onnx").write_bytes(place.model.read_bytes())
    (tmp_path / "data.npz").write_bytes(place.data.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert deployer(*shlex.split(block[1]), "--batch-size", "4") == 0
    assert len(report_of(tmp_path / "fleet")["rounds"]) == 5


@pytest.mark.fleet
@needs_flower
def test_refused_workers(place: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """Flower's runtime has a number of threads; more workers would wait in silence."""
    words = place.words(place.folder / "many", "--devices", 2, "--backend", "threads", "--workers", 500)
    assert "--workers 500 is more than Flower's runtime has threads for" in refused(capsys, *words)
