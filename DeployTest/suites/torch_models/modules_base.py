"""The register of the suite of modules, and the data that they train on. Needs torch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from deployer.torch.objectives import LossSpec
from DeployTest.suites.torch_models.beside import Trial

STEPS = 6
MODULES: dict[str, Callable[[], Trial]] = {}


def module(builder: Callable[[], Trial]) -> Callable[[], Trial]:
    """Add a trial under the name of its builder."""
    MODULES[builder.__name__] = builder
    return builder


def own_loss(build: Callable[[], nn.Module], batch: int, **inputs: Tensor) -> Trial:
    """A module that returns its loss."""
    return Trial("", build, inputs, None, "model", batch)


def supervised(build: Callable[[], nn.Module], batch: int, loss: LossSpec, target: Tensor, **inputs: Tensor) -> Trial:
    """A module whose output is compared with a target."""
    return Trial("", build, inputs, target, loss, batch)


def normal(batch: int, *shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers for all steps."""
    return torch.randn((STEPS * batch, *shape), generator=_seeded(seed))


def uniform(batch: int, *shape: int, seed: int = 2) -> Tensor:
    """Numbers from 0 to below 1 for all steps."""
    return torch.rand((STEPS * batch, *shape), generator=_seeded(seed))


def integers(high: int, batch: int, *shape: int, low: int = 0, seed: int = 3) -> Tensor:
    """Integers from `low` to below `high` for all steps."""
    return torch.randint(low, high, (STEPS * batch, *shape), generator=_seeded(seed))


def classes(count: int, batch: int) -> Tensor:
    """Labels of all steps, in turn."""
    return torch.arange(STEPS * batch) % count


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
