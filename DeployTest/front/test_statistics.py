"""Running statistics of batch norms: after training they are PyTorch's, and so is what a module says in evaluation."""

import copy
import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn


def net() -> Any:
    """Norms of images and of rows, one of them frozen, with momenta of their own."""
    layers = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.Flatten()),
        *(nn.Linear(64, 6), nn.BatchNorm1d(6, momentum=0.3, eps=0.01), nn.Linear(6, 3)),
    )
    layers.train()
    layers[4].eval()
    return layers


def test_statistics(tmp_path: Path) -> None:
    """Losses, weights, statistics with the variance of a sample, numbers of batches, and results in evaluation."""
    torch.manual_seed(1)
    module, twin = net(), net()
    with torch.no_grad():
        module[4].running_var.uniform_(0.5, 2)
        module[1].num_batches_tracked.fill_(5)
    twin.load_state_dict(module.state_dict())
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    x, y = torch.randn(8, 1, 6, 6), torch.arange(8) % 3
    options: dict[str, Any] = {"lr": 0.1, "batch_size": 4, "epochs": 2, "shuffle": False, "folder": tmp_path}
    trained = front.train(module, (x, y), "cross_entropy", **options)
    assert trained.verdict == "passed"
    norms = [f"{place}.{name}" for place in (1, 7) for name in ("running_mean", "running_var", "num_batches_tracked")]
    assert sorted(trained.buffers) == sorted(norms)
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    for _, begin in itertools.product(range(2), (0, 4)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(twin(x[begin : begin + 4]), y[begin : begin + 4]).backward()
        optimizer.step()
    front.load_into(module, trained)
    limits = table()["front"]["movement"]
    for name, p in twin.named_parameters():
        moved = float((p.detach() - before[name]).abs().max())
        assert np.abs(trained.weights[name] - p.detach().numpy()).max() <= max(moved, 1e-4) * limits, name
    for name, buffer in twin.named_buffers():
        ours = dict(module.named_buffers())[name]
        assert torch.allclose(ours, buffer, **table()["several"]["float32"]), name
    assert int(module[1].num_batches_tracked) == 9
    assert torch.allclose(module.eval()(x), twin.eval()(x), rtol=0, atol=limits)


def test_buffers_that_the_module_has_not() -> None:
    """Nothing is changed where one is missing."""
    module = nn.BatchNorm1d(2)
    weights = {"weight": np.zeros(2, np.float32)}
    buffers = {"running_mean": np.ones(2, np.float32), "other": np.ones(2, np.float32)}
    with pytest.raises(KeyError, match="other"):
        front.load_into(module, front.Fitted((), (), weights, {}, "", "", (), (), buffers=buffers))
    assert module.weight.detach().eq(1).all()
    assert module.running_mean.eq(0).all()


def test_a_norm_that_runs_twice() -> None:
    """Each of its two runs renews the statistics, one after the other."""

    class Net(nn.Module):
        """One norm at two places."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(torch.tanh(self.norm(x)) * 2))

    torch.manual_seed(2)
    module, x, y = Net().train(), torch.randn(6, 4), torch.arange(6) % 2
    theirs = copy.deepcopy(module)
    trained = front.train(module, (x, y), "cross_entropy", lr=0.1, batch_size=6)
    theirs(x)
    for name in ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"):
        assert np.allclose(trained.buffers[name], theirs.state_dict()[name].numpy(), **table()["several"]["float32"])


def test_a_norm_without_statistics() -> None:
    """Nothing is renewed, and so nothing comes back."""
    module = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)).train()
    trained = front.train(module, (torch.randn(6, 4), torch.arange(6) % 2), "cross_entropy", batch_size=6)
    assert (trained.verdict, trained.buffers) == ("passed", {})
