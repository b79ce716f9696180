"""Handwritten digits, five lines from a module: at least 97 % of what was not trained is right, in under a minute."""

import importlib
import time
from typing import Any

import numpy as np
import pytest

from DeployTest.support.graphs.digit_images import digits

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
front: Any = importlib.import_module("deployer.torch")
nn = torch.nn
TRAINED, ENOUGH, SECONDS = 1437, 0.97, 60


def test_digits() -> None:
    """AdamW over ten epochs; the module with the weights loaded sees what validation said."""
    x, y = digits()
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    held_out = (x[TRAINED:], y[TRAINED:])
    begin = time.perf_counter()
    options = {"lr": 3e-3, "batch_size": 32, "epochs": 10, "validation": held_out}
    trained = front.train(module, (x[:TRAINED], y[:TRAINED]), "cross_entropy", "adamw", **options)
    seconds = time.perf_counter() - begin
    front.load_into(module, trained, "last")
    with torch.no_grad():
        accuracy = np.mean(module(torch.from_numpy(held_out[0])).argmax(1).numpy() == held_out[1])
    print(f"{accuracy:.4f} in {seconds:.1f} s")
    assert trained.verdict == "passed"
    assert accuracy == trained.rows[-1].metrics["accuracy"] >= ENOUGH
    assert seconds < SECONDS
