"""Latent replay of PyTorch modules: the bits of a run without, running statistics, and loaders that are refused."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import raises

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
COUNT, CLASSES = 60, 3


def module(*, trains: bool) -> Any:
    """A frozen body with a batch norm, which renews its statistics if it trains; dropout, and a head."""
    torch.manual_seed(0)
    nn = torch.nn
    body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    net = nn.Sequential(body.requires_grad_(False), nn.Dropout(0.25), nn.Linear(8 * 16, CLASSES))
    body.train(trains)
    return net


def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images whose first pixels are their class."""
    x = np.random.default_rng(0).standard_normal((COUNT, 1, 8, 8)).astype(np.float32)
    return x, x[:, 0, 0, :CLASSES].argmax(1)


def train(net: Any, samples: Any, **more: Any) -> Any:
    """Train two epochs."""
    words = {"lr": 0.01, "batch_size": 16, "epochs": 2, "progress": False, "check_passes": 2}
    return front.train(net, samples, "cross_entropy", "adamw", **words, **more)


@pytest.mark.parametrize(("trains", "latent", "end"), [(False, "maxpool", "Dropout"), (True, "conv", "Moments")])
def test_bits(trains: bool, latent: str, end: str) -> None:
    """Weights, statistics and metrics are those without latents; a norm that trains ends the frozen part."""
    nets = [module(trains=trains) for _ in range(2)]
    plain, replayed = (
        train(net, data(), validation=0.2, latent_replay=replays)
        for net, replays in zip(nets, (False, True), strict=True)
    )
    assert [row.metrics for row in replayed.rows] == [row.metrics for row in plain.rows]
    for name, tensor in nets[0].state_dict().items():
        assert torch.equal(tensor, nets[1].state_dict()[name]), name
    [found] = [note for note in replayed.notes if note.startswith("latent replay")]
    assert f"latents {latent} float32" in found
    assert end in found


def test_loader() -> None:
    """A loader may give other samples in each epoch; kept in memory it gives the same."""
    x, y = (torch.from_numpy(array) for array in data())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    words = {"lr": 0.01, "epochs": 2, "progress": False, "check_passes": 2, "latent_replay": True}
    with raises(OptionProblem, "latent_replay", "in_memory=True"):
        front.train(module(trains=False), loader, "cross_entropy", "adamw", **words)
    assert len(front.train(module(trains=False), loader, "cross_entropy", "adamw", in_memory=True, **words).rows) == 2


def test_a_library_with_latents(tmp_path: Path) -> None:
    """`package` of a run gives the library of the command, with a ring of latents in front of the head."""
    run = train(module(trains=False), data(), folder=tmp_path / "net")
    run.package(tmp_path / "ours", name="run", latent_replay=8, replay_policy="reservoir", replay_seed=3)
    words = ("--latent-replay", "8", "--replay-policy", "reservoir", "--replay-seed", "3", "--predict-batch", "1")
    assert deployer("package", tmp_path / "net", "--name", "run", "-o", tmp_path / "due", *words) == 0
    names = sorted(p.relative_to(tmp_path / "due") for p in (tmp_path / "due").rglob("*") if p.is_file())
    assert [str(n) for n in names if (tmp_path / "ours" / n).read_bytes() != (tmp_path / "due" / n).read_bytes()] == []
    assert "run_replay_fill" in (tmp_path / "ours/include/run.h").read_text()
