"""Functions of elements as people write them: traced as one operator where there is one, trained as in PyTorch."""

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from DeployTest.front.test_gradients import CLASSES, ROWS, WIDTH, assert_alike, batches

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn
ROOT = math.sqrt(2 / math.pi)


def below(x: Any) -> Any:
    """Twice the share that passes, by tanh."""
    return 1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))


TANH: dict[str, Callable[[Any], Any]] = {
    "power": lambda x: 0.5 * x * below(x),
    "number behind": lambda x: x * below(x) * 0.5,
    "half": lambda x: x * below(x) / 2,
    "products": lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608028654 * (1.0 + 0.044715 * x * x))),
    "operator of powers": lambda x: 0.5 * x * (torch.tanh((x + 0.044715 * x**3) * (2 / math.pi) ** 0.5) + 1),
    "difference": lambda x: x * (0.5 - 0.5 * torch.tanh(-ROOT * (x + 0.044715 * x.square() * x))),
}
ERF: dict[str, Callable[[Any], Any]] = {
    "quotient": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "factor": lambda x: 0.5 * x * (torch.erf(x * math.sqrt(0.5)) + 1),
}


class Net(nn.Module):
    """A function between two layers."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES), function

    def forward(self, x: Any) -> Any:
        return self.last(self.function(self.first(x)))


def steps(function: Callable[[Any], Any], folder: Path) -> set[str]:
    """The operators of the training graph's steps."""
    front.train(Net(function), batches(), "cross_entropy", lr=0.1, batch_size=ROWS, folder=folder)
    plan = json.loads((folder / "run/code/plan.json").read_text())["body"]
    return {step["op"] for step in plan["steps"] if step["graph"] == "train"}


@pytest.mark.parametrize("name", TANH)
def test_gelu_by_tanh(name: str, tmp_path: Path) -> None:
    """Each way of writing is one step forwards and one backwards."""
    found = steps(TANH[name], tmp_path)
    assert {"GeluTanh", "GeluTanhGrad"} <= found
    assert not {"Tanh", "Mul", "Pow"} & found
    assert_alike(lambda: Net(TANH[name]), *batches())


@pytest.mark.parametrize("name", ERF)
def test_gelu_by_erf(name: str, tmp_path: Path) -> None:
    """Each way of writing is one step forwards and one backwards."""
    found = steps(ERF[name], tmp_path)
    assert {"Gelu", "GeluGrad"} <= found
    assert not {"Erf", "Mul", "Div"} & found
    assert_alike(lambda: Net(ERF[name]), *batches())


def without_gradient(x: Any) -> Any:
    """A share that no gradient passes."""
    with torch.no_grad():
        share = below(x)
    return 0.5 * x * share


def hooked(x: Any) -> Any:
    """A share of whose gradient half arrives."""
    share = below(x)
    if share.requires_grad:
        share.register_hook(lambda gradient: gradient * 0.5)
    return 0.5 * x * share


def changed(x: Any) -> Any:
    """A half to which the module adds in place."""
    half = 0.5 * x
    half.add_(0.25)
    return half * below(x)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "another number": lambda x: 0.5 * x * (1.0 + torch.tanh(0.797 * (x + 0.044715 * x**3))),
    "another square": lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * x**2))),
    "of two tensors": lambda x: 0.5 * torch.sin(x) * below(x),
    "detached": lambda x: 0.5 * x * below(x.detach()),
    "without gradient": without_gradient,
    "hooked": hooked,
    "changed": changed,
}
"""Computations that look like a GELU, and are none."""


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str, tmp_path: Path) -> None:
    """They are traced as they stand, and train as in PyTorch."""
    assert not {op for op in steps(OTHERS[name], tmp_path) if op.startswith("Gelu")}
    assert_alike(lambda: Net(OTHERS[name]), *batches())
