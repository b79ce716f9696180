"""Loaders and datasets, read anew in every epoch, a few batches at a time, in their own order."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
data: Any = importlib.import_module("torch.utils.data")
nn = torch.nn
ROOT = Path(__file__).resolve().parents[2]
X = torch.randn(26, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(26) % 3
OPTIONS = {"lr": 0.1, "epochs": 2, "check_passes": 2}


def perceptron() -> Any:
    """Three layers, whose weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).train()


class Pairs(data.Dataset):  # type: ignore[misc]
    """Samples; with `noise` each reading of a sample adds fresh noise to it."""

    def __init__(self, noise: float = 0.0) -> None:
        self.noise, self.targets, self.read = noise, Y.tolist(), list[float]()

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        x = X[index] + self.noise * torch.randn(6)
        if index == 5:
            self.read.append(float(x[0]))
        return x, Y[index]


@pytest.mark.parametrize("batch", [4, 13])
def test_the_bits_of_arrays(batch: int) -> None:
    """A loader's batches and a dataset's samples give what the same arrays give, an incomplete last batch too."""
    held = (X[:5], Y[:5])
    loader = data.DataLoader(data.TensorDataset(X, Y), batch_size=batch)
    ordered = {"validation": held, **OPTIONS}
    one = front.train(perceptron(), (X, Y), "cross_entropy", batch_size=batch, shuffle=False, **ordered)
    two = front.train(perceptron(), loader, "cross_entropy", **ordered)
    others = data.DataLoader(data.TensorDataset(*held), batch_size=2)
    three = front.train(perceptron(), loader, "cross_entropy", **{**ordered, "validation": others})
    assert one.losses == two.losses == three.losses
    assert one.rows == two.rows == three.rows
    shuffled = {"batch_size": batch, "seed": 3, "validation": 0.3, **OPTIONS}
    four = front.train(perceptron(), (X, Y), "cross_entropy", **shuffled)
    five = front.train(perceptron(), Pairs(), "cross_entropy", **shuffled)
    assert four.losses == five.losses
    assert four.rows == five.rows


def test_a_loader_is_read_anew_in_every_epoch() -> None:
    """Augmentation differs from epoch to epoch, also that of workers; shuffling is the loader's."""
    source = Pairs(noise=0.5)
    front.train(perceptron(), source, "cross_entropy", batch_size=4, check=False, **{**OPTIONS, "epochs": 3})
    assert len(set(source.read[-3:])) == 3
    torch.manual_seed(5)
    loader = data.DataLoader(Pairs(noise=0.5), batch_size=13, shuffle=True, num_workers=1)
    trained = front.train(perceptron(), loader, "cross_entropy", **{**OPTIONS, "lr": 1e-9})
    first, second = trained.losses[:2], trained.losses[2:]
    assert set(first).isdisjoint(second), "the weights hardly move, and so the samples must have changed"
    module = perceptron()
    torch.manual_seed(5)
    expected = [nn.functional.cross_entropy(module(x), y).item() for x, y in loader]
    torch.manual_seed(5)
    losses = front.train(module, loader, "cross_entropy", lr=1e-9).losses
    assert np.allclose(losses, expected, rtol=0, atol=table()["front"]["loss"])


def test_read_once_where_asked() -> None:
    """`in_memory` keeps the samples of the first reading, and `shuffle` is then ours."""
    source = Pairs(noise=0.5)
    front.train(perceptron(), source, "cross_entropy", batch_size=4, in_memory=True, **{**OPTIONS, "epochs": 3})
    assert len(source.read) == 1


def test_drop_last_and_means() -> None:
    """An incomplete batch is dropped where asked, and means of updates look ahead no further than an update."""
    loader = data.DataLoader(data.TensorDataset(X, Y), batch_size=4)
    options = {"drop_last": True, "accumulate_grad_batches": 4, **OPTIONS}
    one = front.train(perceptron(), (X, Y), "cross_entropy", batch_size=4, shuffle=False, **options)
    two = front.train(perceptron(), loader, "cross_entropy", **options)
    assert one.losses == two.losses
    assert len(one.losses) == 12
    assert {n: w.tobytes() for n, w in one.weights.items()} == {n: w.tobytes() for n, w in two.weights.items()}


def test_class_balanced() -> None:
    """Each class is drawn as often as any other, of arrays and of a dataset that has its labels."""
    few = torch.where(torch.arange(26) < 23, 0, 1)
    seen: list[int] = []

    def loss(output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output, target)

    order: Any = importlib.import_module("deployer.training.order")
    drawn = order.balanced(order.Order(26, 2, 1), few.numpy()).of_epoch(0)
    seen += few[drawn].tolist()
    assert 6 <= sum(seen) <= 20
    source = Pairs()
    one = front.train(perceptron(), source, loss, batch_size=2, class_balanced=True, **OPTIONS)
    two = front.train(perceptron(), (X, Y), "cross_entropy", batch_size=2, class_balanced=True, **OPTIONS)
    assert one.losses == two.losses
    plain = front.train(perceptron(), (X, Y), "cross_entropy", batch_size=2, **OPTIONS)
    assert two.losses != plain.losses


class Stream(data.IterableDataset):  # type: ignore[misc]
    """Samples without a length."""

    def __iter__(self) -> Any:
        yield from zip(X, Y, strict=True)


def test_what_a_loader_cannot_do() -> None:
    """It is refused by name, with a way out."""
    loader = data.DataLoader(data.TensorDataset(X, Y), batch_size=4)
    for given, word in (
        ({"validation": 0.2}, "validation is a share"),
        ({"shuffle": True}, "shuffle has no effect"),
        ({"class_balanced": True}, "class_balanced has no effect"),
        ({"batch_size": 5}, "another batch size"),
        ({"overfit": 4}, "overfit needs the samples"),
    ):
        with pytest.raises(OptionProblem, match=word):
            front.train(perceptron(), loader, "cross_entropy", **given)
    with pytest.raises(OptionProblem, match="how many batches"):
        front.train(perceptron(), Stream(), "cross_entropy", batch_size=4)
    assert len(front.train(perceptron(), Stream(), "cross_entropy", batch_size=13, n_steps=2).losses) == 2
    labels = torch.where(torch.arange(26) == 20, 3, Y)
    with pytest.raises(DatasetMismatch, match="batch 1: 'labels' holds label 3"):
        front.train(perceptron(), data.DataLoader(data.TensorDataset(X, labels), batch_size=13), "cross_entropy")


def test_other_types_are_told() -> None:
    """A loader of float64 numbers is converted, with one warning, to the bits of float32."""
    found: list[DeployerWarning] = []
    loaders = [data.DataLoader(data.TensorDataset(x, Y), batch_size=13) for x in (X, X.double())]
    one, two = (front.train(perceptron(), x, "cross_entropy", warn=found.append, **OPTIONS) for x in loaders)
    assert one.losses == two.losses
    assert [warning.cause for warning in found] == ["data is converted in every call"]


LARGE = """
import resource, sys, torch
import deployer.torch as front
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Large(Dataset):
    def __len__(self):
        return int(sys.argv[1])
    def __getitem__(self, index):
        return torch.full((16384,), (index % 7) / 7), index % 3

module = nn.Sequential(nn.Linear(16384, 3)).train()
front.train(module, DataLoader(Large(), batch_size=64), "cross_entropy", n_steps=2, check_passes=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
front.train(module, DataLoader(Large(), batch_size=64), "cross_entropy", check_passes=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """Of 512 MiB of samples no more than 300 MiB ever lie in memory."""
    script = tmp_path / "large.py"
    script.write_text(LARGE)
    place = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, script, "8192"], capture_output=True, text=True, check=True, env=place)
    assert int(run.stdout.split()[-1]) < 300
