"""An optimizer of `torch.optim` after a run, and a run that begins with one's state: both as in PyTorch's own loop."""

import copy
import importlib
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import OptionProblem
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F = torch.nn, torch.nn.functional
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 3
OPTIONS = {"batch_size": 4, "shuffle": False, "epochs": 2, "check_passes": 12}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


def perceptron() -> Any:
    """Three layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()


def by_torch(module: Any, optimizer: Any, epochs: int = 2) -> list[float]:
    """The losses of PyTorch's own loop."""
    losses = []
    for _ in range(epochs):
        for i in range(0, 24, 4):
            optimizer.zero_grad()
            value = F.cross_entropy(module(X[i : i + 4]), Y[i : i + 4])
            value.backward()
            optimizer.step()
            losses.append(value.item())
    return losses


def same_state(ours: Any, theirs: Any) -> None:
    """The state of both is the same: names, types, numbers of updates, and values as far as float32 goes."""
    one, two = ours.state_dict(), theirs.state_dict()
    assert one["param_groups"] == two["param_groups"]
    assert one["state"].keys() == two["state"].keys()
    for i, state in two["state"].items():
        assert one["state"][i].keys() == state.keys()
        for key, value in state.items():
            found = one["state"][i][key]
            assert type(found) is type(value)
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            bound = float(value.abs().max()) * table()["front"]["movement"]
            assert float((found - value).abs().max()) <= (0 if key == "step" else bound), (i, key)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_loop_of_pytorch_goes_on(name: str) -> None:
    """The optimizer has what PyTorch's own loop leaves; both that and another run go on from it."""
    module, theirs = perceptron(), perceptron()
    optimizer, other = OPTIMIZERS[name](module.parameters()), OPTIMIZERS[name](theirs.parameters())
    first = front.train(module, (X, Y), F.cross_entropy, optimizer, **OPTIONS)
    losses, close = by_torch(theirs, other), {"rtol": 0, "atol": table()["front"]["loss"]}
    assert np.allclose(first.losses, losses, **close)
    same_state(optimizer, other)
    saved = copy.deepcopy(optimizer.state_dict())
    mine, loaded = perceptron(), None
    mine.load_state_dict(module.state_dict())
    loaded = OPTIMIZERS[name](mine.parameters())
    loaded.load_state_dict(saved)
    on = by_torch(theirs, other)
    assert np.allclose(front.train(mine, (X, Y), F.cross_entropy, loaded, **OPTIONS).losses, on, **close)
    same_state(loaded, other)
    assert np.allclose(by_torch(module, optimizer), on, **close)


def test_a_step_begins_with_the_state() -> None:
    """So does that of a loop of one's own; a library of a module does not, and says so."""
    module, theirs = perceptron(), perceptron()
    optimizer, other = torch.optim.Adam(module.parameters(), lr=0.01), torch.optim.Adam(theirs.parameters(), lr=0.01)
    by_torch(module, optimizer)
    by_torch(theirs, other)
    step = front.compile_step(module, F.cross_entropy, optimizer)
    losses = [step(X[i : i + 4], Y[i : i + 4]) for i in range(0, 24, 4)]
    assert np.allclose(losses, by_torch(theirs, other, 1), rtol=0, atol=table()["front"]["loss"])
    with pytest.raises(OptionProblem, match="its state is not taken over"):
        front.package(module, F.cross_entropy, optimizer, (X[:4], Y[:4]), "unused")


def test_different_numbers_of_updates() -> None:
    """A program has one number for all parameters: a head that is trained first and then the rest need a new one."""
    module = perceptron()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for parameter in module[0].parameters():
        parameter.requires_grad_(False)
    front.train(module, (X, Y), F.cross_entropy, optimizer, **OPTIONS)
    assert len(optimizer.state) == 2
    front.train(module, (X, Y), F.cross_entropy, optimizer, **OPTIONS)
    assert {float(state["step"]) for state in optimizer.state.values()} == {24.0}
    module.requires_grad_(True)
    with pytest.raises(OptionProblem, match=r"different numbers of updates[\s\S]*2\.weight: 24[\s\S]*a new optimizer"):
        front.train(module, (X, Y), F.cross_entropy, optimizer, **OPTIONS)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_scheduler_that_follows_the_loss(accumulate: int) -> None:
    """ReduceLROnPlateau is stepped after each epoch, with the loss of training or the monitored metric."""
    options = {**OPTIONS, "epochs": 6, "accumulate_grad_batches": accumulate, "partial_accumulation": "apply"}

    def parts(module: Any) -> tuple[Any, Any]:
        groups = [{"params": module[0].parameters()}, {"params": module[2].parameters(), "lr": 0.5}]
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=0.5)
        return optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5)

    module, theirs = perceptron(), perceptron()
    optimizer, scheduler = parts(module)
    run = front.train(module, (X, Y), F.cross_entropy, optimizer, lr_scheduler=scheduler, **options)
    other, follower = parts(theirs)
    losses, made = list[float](), 0
    for _ in range(6):
        epoch = []
        for i in range(0, 24, 4):
            value = F.cross_entropy(theirs(X[i : i + 4]), Y[i : i + 4])
            (value / accumulate).backward()
            made += 1
            if made % accumulate == 0:
                other.step()
                other.zero_grad()
            epoch.append(value.item())
        losses += epoch
        follower.step(float(np.mean(epoch)))
    assert np.allclose(run.losses, losses, rtol=0, atol=table()["front"]["loss"])
    assert len({row.rate for row in run.rows}) > 1
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in other.param_groups]
    assert scheduler.state_dict()["num_bad_epochs"] == follower.state_dict()["num_bad_epochs"]


def test_the_metric_that_a_scheduler_follows() -> None:
    """It is the monitored one, whose better values have to be the scheduler's."""

    def run(mode: str, **given: Any) -> Any:
        module = perceptron()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=0.1, patience=0)
        options = {**OPTIONS, "epochs": 4, "validation": (X, Y), "check": False}
        options |= {"lr_scheduler": scheduler, **given}
        return scheduler, front.train(module, (X, Y), "cross_entropy", optimizer, **options)

    scheduler, fitted = run("max", monitor="accuracy")
    assert scheduler.best == max(row.metrics["accuracy"] for row in fitted.rows)
    with pytest.raises(OptionProblem, match=r"mode is 'max', and 'min' of the monitored 'loss' is better"):
        run("max")


SCHEDULERS = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=3),
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5),
    "sequence": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 1), torch.optim.lr_scheduler.ExponentialLR(o, 0.5)],
        [1],
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_that_is_stepped_after_each_epoch(name: str) -> None:
    """Rates and both objects are those of PyTorch's own loop, also where an update has passes of two epochs."""
    module, theirs, told = perceptron(), perceptron(), list[Any]()
    optimizer, other = (torch.optim.SGD(x.parameters(), lr=0.5) for x in (module, theirs))
    scheduler, follower = SCHEDULERS[name](optimizer), SCHEDULERS[name](other)
    options = {**OPTIONS, "epochs": 3, "accumulate_grad_batches": 4, "partial_accumulation": "apply"}
    options |= {"lr_scheduler": scheduler, "lr_scheduler_interval": "epoch", "warn": told.append}
    run = front.train(module, (X, Y), F.cross_entropy, optimizer, **options)
    losses = list[float]()
    for _ in range(3):
        for i in range(0, 24, 4):
            value = F.cross_entropy(theirs(X[i : i + 4]), Y[i : i + 4])
            losses.append(value.item())
            last = len(losses) == 18
            (value / (2 if len(losses) > 16 else 4)).backward()
            if len(losses) % 4 == 0 or last:
                other.step()
                other.zero_grad()
        follower.step()
    assert np.allclose(run.losses, losses, rtol=0, atol=table()["front"]["loss"])
    assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"]
    assert scheduler.last_epoch == follower.last_epoch == 3
    assert not told


def test_a_scheduler_that_looks_as_if_made_for_epochs() -> None:
    """One that is stepped after each update is told of where its numbers are those of epochs, or its rates vanish."""
    schedulers = torch.optim.lr_scheduler
    for make, tells in (
        (lambda o: schedulers.CosineAnnealingLR(o, T_max=2), True),
        (lambda o: schedulers.ExponentialLR(o, 0.1), True),
        (lambda o: schedulers.CosineAnnealingLR(o, T_max=12), False),
        (lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=12, cycle_momentum=False), False),
    ):
        module, told = perceptron(), list[Any]()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        options = {**OPTIONS, "check": False, "warn": told.append}
        front.train(module, (X, Y), F.cross_entropy, optimizer, lr_scheduler=make(optimizer), **options)
        assert ["lr_scheduler_interval" in warning.hint for warning in told] == [True] * tells
    with pytest.raises(OptionProblem, match="has no effect without a scheduler of PyTorch"):
        front.train(perceptron(), (X, Y), F.cross_entropy, lr_scheduler="cosine", lr_scheduler_interval="epoch")
    with pytest.raises(OptionProblem, match="lr_scheduler_interval is 'batch'"):
        front.train(perceptron(), (X, Y), F.cross_entropy, lr_scheduler_interval="batch")
