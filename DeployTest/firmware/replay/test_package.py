"""Options of a latent replay: sizes with a ring, targets that are no classes, runs, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from deployer.firmware.replay import MOST_SLOTS, ReplayOptions
from deployer.sizing.library_call import LibraryCall
from DeployTest.firmware.replay.test_replay import CLASSES, SETTINGS, dense, drawn_labels, samples
from DeployTest.firmware.test_library import manifest, packaged, ran
from DeployTest.models.parts.generator import training_case
from DeployTest.quantization.nets import Net, by_runtime
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
RING = ("--latent-replay", 40)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case of two frozen layers and a head; nobody writes into it."""
    setting = SETTINGS["dense"]
    return setting.case(tmp_path_factory.mktemp("case"), samples(setting.net(setting.batch)), drawn_labels())


def test_sizes(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The struct, the page, the manifest and a budget count latents, labels and counters of the ring."""
    few, many = (
        packaged("net", case, tmp_path / str(slots), "--latent-replay", slots, "--no-compile") for slots in (40, 41)
    )
    record = 4 * 7 + 4
    ring = 40 * record + 4 * (2 + 3 * CLASSES)
    facts = {"slots": 40, "policy": "balanced", "seed": 0, "latent": "b", "label": "labels", "latent_bytes": 28}
    assert manifest(few)["replay"] == {**facts, "bytes": ring}
    structs = [manifest(folder)["bytes"]["struct"] for folder in (few, many)]
    assert structs[1] - structs[0] == record
    assert f"| of it the ring of 40 records | {ring} |" in (few / "README.md").read_text()
    needed = re.search(r"needed +(\d+) B", refused(capsys, "package", case, *words(tmp_path), "--budget", "RAM=100"))
    assert needed
    assert ring < int(needed[1]) <= structs[0]
    message = refused(capsys, "package", case, *words(tmp_path), "--budget", f"RAM={int(needed[1]) - 1}")
    assert f"{ring} B: replay.latents, replay.labels, replay.counters" in message
    assert deployer("package", case, *words(tmp_path), "--no-compile", "--budget", f"RAM={needed[1]}") == 0


def words(folder: Path) -> tuple[object, ...]:
    """The options of a library with a ring."""
    return ("--name", "net", "-o", folder / "library", *RING)


def test_fits(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A board's memory counts the ring, and a machine with several memories is refused."""
    memory = {}
    for slots in (40, 41):
        capsys.readouterr()
        boards = ("--board", "stm32f446", "--board", "siracusa")
        assert deployer("fits", case, *boards, "--latent-replay", slots, "--json") == 0
        own, several = json.loads(capsys.readouterr().out.splitlines()[-1])["boards"]
        memory[slots] = own["memory"]
        assert "works in one memory" in several["lacking"][0]
    assert memory[41] - memory[40] == 4 * 7 + 4


@pytest.mark.slow
def test_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Targets of several floats need the reservoir, whose records have them all."""
    model = dense(4).save(tmp_path / "model.onnx", "head.out")
    x = samples(dense(4))
    data = {"x": x, "target": np.stack([x[:, 0], x[:, 1], x[:, 2]], 1)}
    case = training_case(model, "mse", "head", data=data).train
    assert "--replay-policy reservoir" in refused(capsys, "package", case, *words(tmp_path))
    folder = packaged("net", case, tmp_path / "library", *RING, "--replay-policy", "reservoir")
    assert {row["name"]: row["shape"] for row in manifest(folder)["state"]}["replay.labels"] == [40, 3]
    ran("make", "-s", "-C", folder, "CFLAGS=-O1 -fsanitize=address,undefined", "LDFLAGS=-fsanitize=address,undefined")
    losses = [float(line.split()[3]) for line in ran(folder / "build/net_example").splitlines() if "loss" in line]
    assert len(losses) > 4
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_run(tmp_path: Path) -> None:
    """A run's library begins with its weights, and its state can be exported with the ring."""
    model = dense(4).save(tmp_path / "model.onnx", "head.out")
    np.savez(tmp_path / "data.npz", x=samples(dense(4)), labels=drawn_labels())
    given = ("--data", tmp_path / "data.npz", "--loss", "cross_entropy", "--epochs", 2, "--trainable", "head")
    assert deployer("fit", model, *given, "-o", tmp_path / "run") == 0
    folder = packaged("net", tmp_path / "run", tmp_path / "library", *RING)
    assert deployer("state", "export", folder / "weights.bin", "-o", tmp_path / "state.npz") == 0
    with np.load(tmp_path / "state.npz") as state, np.load(tmp_path / "run/trained.npz") as trained:
        assert state["head_weight"].tobytes() == trained["head.weight"].tobytes()
        assert state["replay.latents"].shape == (40, 7)
        assert not state["replay.counters"].any()
    x, tuned = samples(dense(4)), tmp_path / "tuned.onnx"
    assert deployer("export", model, "--weights", tmp_path / "run/trained.npz", "-o", tuned) == 0
    assert_close("predict", LibraryCall(folder, "net").predict([x]), by_runtime(tuned, x))


def test_refused(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options without a ring, models without frozen layers, and several values at the border."""
    bare = ("--name", "net", "-o", tmp_path / "library")
    for option in (("--replay-policy", "balanced"), ("--replay-seed", 0)):
        message = refused(capsys, "package", case, *bare, *option)
        assert f"{option[0]} has no effect here" in message
        assert "--latent-replay SLOTS" in message
    model = dense(4).save(tmp_path / "model.onnx", "head.out")
    assert "--latent-replay has no effect on a model" in refused(capsys, "package", model, *words(tmp_path))
    data = {"x": samples(dense(4)), "labels": drawn_labels()}
    whole = training_case(model, "cross_entropy", data=data).train
    assert "no layer in front of the trained ones is frozen" in refused(capsys, "package", whole, *words(tmp_path))
    net = Net((12,), batch=4)
    both = [net.op("Relu", [net.linear("x", f"features.{i}", 12, 5)], f"r{i}") for i in range(2)]
    net.op("Add", [net.linear(both[0], "head.0", 5, CLASSES), net.linear(both[1], "head.1", 5, CLASSES)], "y")
    forked = training_case(net.save(tmp_path / "forked.onnx", "y"), "cross_entropy", "head", data=data).train
    message = refused(capsys, "package", forked, *words(tmp_path))
    assert "the head reads several" in message
    assert "r0 float32[4,5], r1 float32[4,5]" in message
    faults: tuple[dict[str, Any], ...] = (
        {"slots": MOST_SLOTS + 1},
        {"slots": 1, "policy": "oldest"},
        {"slots": 1, "seed": -1},
    )
    for wrong in faults:
        with pytest.raises(OptionProblem, match=f"{list(wrong)[-1]} of a latent replay is out of range"):
            ReplayOptions(**wrong)
