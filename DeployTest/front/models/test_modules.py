"""A sample of the suite of modules, beside PyTorch; and triangular equations."""

import importlib
import itertools
from typing import Any

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
modules: Any = importlib.import_module("DeployTest.suites.torch_models.modules")
beside: Any = importlib.import_module("DeployTest.suites.torch_models.beside")
nn = torch.nn

SAMPLE = ("spatial_transformer", "graph_sage", "vq_vae", "beta_vae", "score_matching", "mixture_density")
"""One of each kind: images, edges, buffers, random numbers, gradients of gradients, equations."""
COUNT = 43


@pytest.mark.parametrize("name", SAMPLE)
def test_modules_train_as_in_pytorch(name: str) -> None:
    """Losses and weights after six steps of AdamW."""
    [trial] = modules.trials([name])
    result = beside.judge(trial, "adamw", modules.RATES["adamw"])
    assert (result.outcome, result.reason) == (beside.RIGHT, "")
    assert result.moved > 1e-3


def test_another_rate_is_found() -> None:
    """The judge does not pass what trained at another rate."""
    [trial] = modules.trials(["graph_sage"])
    own = beside.PEERS["sgd"]
    beside.PEERS["sgd"] = lambda module, loss, batches, rate: own(module, loss, batches, 1.01 * rate)
    try:
        assert beside.judge(trial, "sgd", modules.RATES["sgd"]).outcome == beside.OFF
    finally:
        beside.PEERS["sgd"] = own


def test_all_are_registered() -> None:
    """As many as the page says, under names of their own, with six batches each."""
    trials = modules.trials()
    assert len({t.name for t in trials}) == len(trials) == COUNT
    assert all(len(next(iter(t.inputs.values()))) == 6 * t.batch for t in trials)


class Solver(nn.Module):
    """Solves equations with a triangular matrix, of which both sides are trained."""

    def __init__(self, upper: bool, left: bool, unit: bool) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(2, 4, 4) + 3 * torch.eye(4))
        self.mix, self.options = nn.Linear(3, 3), {"upper": upper, "left": left, "unitriangular": unit}

    def forward(self, x: Any) -> Any:
        b = self.mix(x).unsqueeze(1)  # batch, 1, 4, 3 beside two matrices
        b = b if self.options["left"] else b.transpose(-1, -2)
        a = self.a.triu() if self.options["upper"] else self.a.tril()
        return torch.linalg.solve_triangular(a, b, **self.options).square().mean()


@pytest.mark.parametrize(("upper", "left", "unit"), [*itertools.product((False, True), repeat=3)])
def test_triangular_equations(upper: bool, left: bool, unit: bool) -> None:
    """The check in float64 and the first updates agree with PyTorch, for either side and triangle."""
    torch.manual_seed(3)
    x = torch.randn((4, 4, 3))
    assert front.train(Solver(upper, left, unit), {"x": x}, "model", batch_size=2, lr=0.01).verdict == "passed"
