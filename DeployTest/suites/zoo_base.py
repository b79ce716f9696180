"""Shared code of the zoo's nets: registering, drawing and closing one. Needs torch."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn


@dataclass(frozen=True)
class Net:
    """A module, its inputs as shapes (of a batch of two) or numbers of ids, and its loss."""

    module: nn.Module
    inputs: tuple[tuple[int, ...], ...]
    loss: str = "cross_entropy"
    ids: int = 0
    """Inputs are numbers below this instead of normal values."""


Builder = Callable[[np.random.Generator], Net]
ZOO: dict[str, Builder] = {}
BATCH = 2


def net(builder: Builder) -> Builder:
    """Register a net under its function's name."""
    ZOO[builder.__name__] = builder
    return builder


def width(draw: np.random.Generator, low: int, high: int, step: int = 1) -> int:
    """A width between bounds, in steps."""
    return int(draw.integers(low // step, high // step + 1)) * step


class Mean(nn.Module):
    """The mean over the places of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Over all axes behind the second."""
        return x.mean(tuple(range(2, x.dim())))


def head(features: int, classes: int) -> list[nn.Module]:
    """From channels to scores."""
    return [Mean(), nn.Linear(features, classes)]
