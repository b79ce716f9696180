"""Embeddings whose gradients PyTorch scales or leaves out, and what a step cannot have, which is refused by name."""

import importlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DeployerError
from DeployTest.front.test_gradients import CLASSES, ROWS, STEPS, WIDTH, Net, assert_alike, batches

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn


class Ids(nn.Module):
    """A table of rows behind ids that repeat, one of them more often than others."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, WIDTH, **options), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: Any) -> Any:
        return self.last(self.table(ids).mean(1))


@pytest.mark.parametrize("options", [{"scale_grad_by_freq": True}, {"padding_idx": 1}, {"sparse": True}, {}])
def test_embeddings(options: dict[str, Any]) -> None:
    """Gradients scaled by how often an id is there, and none of the padding's row."""
    ids = torch.tensor([[0, 1, 1], [1, 2, 1], [4, 4, 0], [1, 3, 2]] * STEPS)
    assert_alike(lambda: Ids(**options), ids, batches()[1])


def test_a_renormed_table_is_refused() -> None:
    """Forward writes the parameter itself: an error that names it."""
    ids = torch.tensor([[0, 1, 1], [1, 2, 1], [4, 4, 0], [1, 3, 2]])
    with pytest.raises(DeployerError, match=r"table\.weight|embedding_renorm"):
        front.train(Ids(max_norm=0.5), (ids, batches()[1][:ROWS]), "cross_entropy", batch_size=ROWS)


def counting(net: Any, h: Any) -> Any:
    """A Python number that forward changes."""
    net.calls += 1
    return net.extra(h) * net.calls


def growing(net: Any, h: Any) -> Any:
    """A Python list that forward changes."""
    net.calls.append(1)
    return net.extra(h) * len(net.calls)


def branching(net: Any, h: Any) -> Any:
    """A branch on a value."""
    return net.extra(h) if h.sum() > 0 else h


def outside(net: Any, h: Any) -> Any:
    """A tensor of nobody's that forward writes."""
    OUTSIDE.add_(1)
    return net.extra(h) * OUTSIDE


OUTSIDE = torch.zeros(1)


def dropping(net: Any, h: Any) -> Any:
    """A layer that Python's generator leaves out."""
    return h if random.random() < 0.5 else net.extra(h)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "number": (lambda: Net(counting, lambda net: setattr(net, "calls", 0)), "'calls'"),
    "list": (lambda: Net(growing, lambda net: setattr(net, "calls", [])), "'calls'"),
    "branch": (lambda: Net(branching), "depends on the values"),
    "item": (lambda: Net(lambda net, h: net.extra(h) * h.max().item()), "a Python number of a tensor"),
    "python_random": (lambda: Net(dropping), "draws from Python's random"),
    "numpy_random": (lambda: Net(lambda net, h: net.extra(h) * float(np.random.rand())), r"draws from numpy\.random"),
    "outside": (lambda: Net(outside), "not a buffer"),
    "parameter": (lambda: Net(lambda net, h: (net.extra.weight.data.mul_(0.5), net.extra(h))[1]), r"extra\.weight"),
    "no_grad_parameter": (
        lambda: Net(lambda net, h: (torch.no_grad()(lambda: net.extra.weight.div_(2))(), net.extra(h))[1]),
        r"extra\.weight",
    ),
    "all_stopped": (lambda: Net(lambda net, h: h.detach(), lambda net: net.last.requires_grad_(False)), "no parameter"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_name(name: str) -> None:
    """An error of ours, which names what is in the way; the module stays as it was."""
    build, words = REFUSED[name]
    module = build()
    before = {n: t.clone() for n, t in module.state_dict().items()}
    x, y = batches()
    with pytest.raises(DeployerError, match=words):
        front.train(module, (x, y), "cross_entropy", batch_size=ROWS)
    assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())
    assert getattr(module, "calls", None) in (None, 0, [])
