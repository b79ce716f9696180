"""Weights of single samples: every loss by name beside PyTorch's own loop, in each form of data."""

import importlib
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, OptionProblem, ShapeMismatch
from deployer.core.operator import losses
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
DRAW = torch.Generator().manual_seed(1)
X, Y = torch.randn(24, 6, generator=DRAW), torch.arange(24) % 3
W = torch.rand(24, generator=DRAW) * 3
OPTIONS = {"batch_size": 4, "shuffle": False, "lr": 0.1, "check_passes": 2}
FUNCTIONS = {"bce": "binary_cross_entropy", "bce_with_logits": "binary_cross_entropy_with_logits"}
ENDS = {"bce": nn.Sigmoid, "nll": lambda: nn.LogSoftmax(1), "kl_div": lambda: nn.LogSoftmax(1)}


def net(name: str) -> Any:
    """A module whose output the loss takes."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 3), ENDS.get(name, nn.Identity)())


def target_of(name: str) -> Any:
    """Class numbers, or numbers from 0 to 1 that add up to 1."""
    return Y if name in ("cross_entropy", "nll") else torch.softmax(torch.flip(X[:, :3], [0]), 1)


def by_torch(name: str, target: Any) -> list[float]:
    """The losses of PyTorch's own loop."""
    module = net(name)
    optimizer, found = torch.optim.SGD(module.parameters(), 0.1), []
    function = getattr(F, FUNCTIONS.get(name, name), None) or getattr(F, f"{name}_loss")
    for i in range(0, 24, 4):
        optimizer.zero_grad()
        each = function(module(X[i : i + 4]), target[i : i + 4], reduction="none").reshape(4, -1)
        each = each.sum(1) if name == "kl_div" else each.mean(1)
        loss = (each * W[i : i + 4]).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", losses())
def test_every_loss(name: str) -> None:
    """The losses are those of PyTorch's weighted mean; weights of 1 give the bits of the loss itself, or nearly."""
    target, close = target_of(name), {"rtol": 0, "atol": table()["front"]["loss"]}
    run = front.train(net(name), (X, target), name, "sgd", sample_weight=W, **OPTIONS)
    np.testing.assert_allclose(run.losses, by_torch(name, target), **close)
    ones = front.train(net(name), (X, target, torch.ones(24)), name, "sgd", **OPTIONS)
    plain = front.train(net(name), (X, target), name, "sgd", **OPTIONS)
    np.testing.assert_allclose(ones.losses, plain.losses, **close)
    assert not np.allclose(run.losses, plain.losses, **close)


def test_every_form_of_data() -> None:
    """An argument, a third array, a mapping, a loader and a loop of one's own give the same bits."""
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y, W), batch_size=4)
    options = {n: v for n, v in OPTIONS.items() if n not in ("batch_size", "shuffle")}
    argument = front.train(net(""), (X, Y), "cross_entropy", sample_weight=W.tolist(), **OPTIONS)
    third = front.train(net(""), (X, Y, W), nn.CrossEntropyLoss(), **OPTIONS)
    named = front.train(net(""), {"input": X, "weight": W, "label": Y}, "cross_entropy", **OPTIONS)
    streamed = front.train(net(""), loader, "cross_entropy", validation=loader, **options)
    step = front.compile_step(net(""), "cross_entropy", lr=0.1)
    own = [step(*batch) for batch in loader]
    assert argument.losses == third.losses == named.losses == streamed.losses == tuple(own)


def test_ignored_labels_and_class_weights() -> None:
    """The divisor is that of the loss: labels that count, by their class weights."""
    y, loss = (
        torch.where(Y == 1, -100, Y),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1),
    )
    plain = front.train(net(""), (X, y), loss, **OPTIONS)
    ones = front.train(net(""), (X, y), loss, sample_weight=np.ones(24), **OPTIONS)
    np.testing.assert_allclose(ones.losses, plain.losses, rtol=0, atol=table()["front"]["loss"])


def test_validation_counts_all_alike() -> None:
    """With weights and without: the same metrics."""
    given = [(X, Y), (X, Y, W), torch.utils.data.TensorDataset(X, Y), torch.utils.data.TensorDataset(X, Y, W)]
    runs = [front.train(net(""), (X, Y, W), "cross_entropy", validation=v, **OPTIONS) for v in given]
    module = front.load_into(net(""), runs[0]).double()
    expected = float(F.cross_entropy(module(X.double()), Y).detach())
    for run in runs:
        assert run.metrics["loss"] == pytest.approx(expected, abs=table()["front"]["loss"])


def test_refused_weights() -> None:
    """The error says what to write where nothing can weight, or weights do not fit."""
    dataset = torch.utils.data.TensorDataset(X, Y)
    cases: list[tuple[type[Exception], str, Any, Any, dict[str, Any]]] = [
        (
            OptionProblem,
            r'needs a loss by its name[\s\S]*target\["weights"\]',
            (X, Y),
            lambda a, b: F.mse_loss(a, a),
            {},
        ),
        (OptionProblem, r"no effect on a loader[\s\S]*\(x, y, weight\)", dataset, "cross_entropy", {}),
        (DatasetMismatch, "5 weights, and 24 samples", (X, Y), "cross_entropy", {"sample_weight": W[:5]}),
        (DatasetMismatch, "weights already", (X, Y, W), "cross_entropy", {}),
        (ShapeMismatch, "fits neither samples nor losses", (X, Y), "cross_entropy", {"sample_weight": X[:, :2]}),
    ]
    for kind, text, data, loss, given in cases:
        with pytest.raises(kind, match=text):
            front.train(net(""), data, loss, **{"sample_weight": W, **OPTIONS, **given})
    with pytest.raises(OptionProblem, match=r"step\(x, y, weights\)"):
        front.compile_step(net(""), "cross_entropy", sample_weight=W)
