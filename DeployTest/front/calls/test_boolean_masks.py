"""Boolean tensors in the samples: what `forward` and the loss get is a mask of PyTorch, in every form of the data."""

import importlib
from typing import Any

import numpy as np
import pytest

from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn, F, utils = torch.nn, torch.nn.functional, torch.utils.data
X = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
MASK = torch.rand(12, 5, generator=torch.Generator().manual_seed(2)) < 0.6
Y = torch.arange(12) % 3
OPTIONS = {"lr": 0.1, "batch_size": 4, "shuffle": False, "epochs": 1, "check_passes": 1}
RATE = 0.1


class Masked(nn.Module):
    """Reads what its mask leaves out, which of integers is another number: ~1 is -2."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Any, mask: Any) -> Any:
        """Scores."""
        return self.layer(x * (~mask))


def by_torch(module: Any, loss: Any, target: Any) -> list[float]:
    """The losses of PyTorch's own loop."""
    optimizer, losses = torch.optim.SGD(module.parameters(), RATE), []
    for i in range(0, 12, 4):
        optimizer.zero_grad()
        value = loss(module(X[i : i + 4], MASK[i : i + 4]), target[i : i + 4])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


FORMS = {
    "tensors": (X, MASK, Y),
    "a mapping": {"x": X, "mask": MASK, "labels": Y},
    "a dataset": utils.TensorDataset(X, MASK, Y),
    "batches by name": [{"x": X[i : i + 4], "mask": MASK[i : i + 4], "labels": Y[i : i + 4]} for i in (0, 4, 8)],
    "arrays": (X.numpy(), MASK.numpy(), Y.numpy()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_mask_is_one_in_training(form: str) -> None:
    """The losses are those of PyTorch's own loop, and so are predictions by the same mask."""
    module = Masked()
    run = front.train(module, FORMS[form], "cross_entropy", **OPTIONS)
    assert np.allclose(run.losses, by_torch(Masked(), F.cross_entropy, Y), rtol=0, atol=table()["front"]["loss"])
    assert np.allclose(run.predict(X, MASK), module(X, MASK).detach(), rtol=0, atol=table()["front"]["loss"])


def test_a_mask_is_one_in_a_loop() -> None:
    """A compiled step takes it, too, in the first call and later."""
    step = front.compile_step(Masked(), "cross_entropy", "sgd", lr=RATE)
    found = [float(step(X[i : i + 4], MASK[i : i + 4], Y[i : i + 4])) for i in (0, 4, 8)]
    assert np.allclose(found, by_torch(Masked(), F.cross_entropy, Y), rtol=0, atol=table()["front"]["loss"])


def test_a_target_is_one_for_a_function() -> None:
    """A loss function gets bools, a loss by its name the numbers that it compares."""

    def left_out(output: Any, target: Any) -> Any:
        return (output.square() * (~target)).mean()

    target = MASK[:, :3]
    run = front.train(Masked(), (X, MASK, target), left_out, **OPTIONS)
    assert np.allclose(run.losses, by_torch(Masked(), left_out, target), rtol=0, atol=table()["front"]["loss"])
    run = front.train(Masked(), (X, MASK, target), nn.BCEWithLogitsLoss(), **OPTIONS)
    expected = by_torch(Masked(), F.binary_cross_entropy_with_logits, target.float())
    assert np.allclose(run.losses, expected, rtol=0, atol=table()["front"]["loss"])
