"""Reasons for a deviating net of the zoo: rounding is told from a fault. Needs PyTorch."""

from collections.abc import Mapping

import numpy as np
import pytest

pytest.importorskip("torch", reason="the zoo's peer is PyTorch, which is not installed")

import torch

from deployer.core.operator import Array
from deployer.verify.tolerances import TOLERANCES
from DeployTest.suites.zoo_reasons import States, left_to_rounding
from DeployTest.suites.zoo_torch import Trained, by_adamw, reach_of

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.torch]
RATE = 1e-3


def data() -> tuple[list[list[torch.Tensor]], list[torch.Tensor]]:
    """Six batches for a layer of three inputs and two outputs."""
    noise = torch.Generator().manual_seed(4)
    return (
        [[torch.randn((4, 3), generator=noise)] for _ in range(6)],
        [torch.randn((4, 2), generator=noise) for _ in range(6)],
    )


def mse(module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss of the layer."""
    return torch.nn.functional.mse_loss(module(x), y)


def layer() -> torch.nn.Linear:
    """A layer with weights from a seed."""
    torch.manual_seed(5)
    return torch.nn.Linear(3, 2)


def test_reach() -> None:
    """A gradient that is its own rounding may take a step to the other side; one far above it moves next to nothing."""
    weights, exact = np.zeros(2), np.full(2, 0.5)
    slopes = [(exact, np.array([1.0, 1e-7]))] + [(exact, np.zeros(2))] * 5
    reach = reach_of(weights, slopes, RATE)
    assert reach[0] > RATE
    assert reach[1] < TOLERANCES.weight / 10


def test_a_fault_is_not_rounding() -> None:
    """An entry that rounding may move accounts for what it does; what is off by more, or elsewhere, is not accepted."""
    batches = [[*x, y] for x, y in zip(*data(), strict=True)]
    gold = by_adamw(layer(), mse, batches, RATE)
    place = (0, 1)
    for array in (gold.open["weight"], gold.reach["weight"]):
        array[place] = 1
    held = {name: x.copy() for name, x in gold.weights.items()}
    held["weight"][place] += 0.5
    masks = {name: np.zeros(x.shape, bool) for name, x in held.items()}
    masks["weight"][place] = True

    def again(states: States, taken: Mapping[str, Array]) -> Trained:
        return by_adamw(layer(), mse, batches, RATE, held=(states, taken))

    moved = again([held] * 6, masks)
    rows = [{name: x.copy() for name, x in moved.weights.items()} for _ in range(6)]
    assert "rounding of gradients may move an entry" in left_to_rounding(rows, moved.losses, gold, again)
    wrong = [{**row, "bias": row["bias"] + 1e-3} for row in rows]
    assert left_to_rounding(wrong, moved.losses, gold, again) == ""
    gold.reach["weight"][place] = 0.25
    assert left_to_rounding(rows, moved.losses, gold, again) == ""
