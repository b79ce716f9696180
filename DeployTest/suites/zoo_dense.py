"""Nets of fully connected layers, every activation of torch.nn, several inputs and outputs. Needs torch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.zoo_base import BATCH, ZOO, Net, net, width


@net
def mlp(d: np.random.Generator) -> Net:
    """Three layers with Relu."""
    n, h = width(d, 8, 40), width(d, 8, 40)
    return Net(nn.Sequential(nn.Linear(n, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 7)), ((BATCH, n),))


@net
def autoencoder(d: np.random.Generator) -> Net:
    """Its own input as the target's shape."""
    n, h = width(d, 20, 40), width(d, 6, 12)
    layers = nn.Sequential(nn.Linear(n, h), nn.ReLU(), nn.Linear(h, h // 2), nn.ReLU(), nn.Linear(h // 2, n))
    return Net(layers, ((BATCH, n),), "mse")


def with_activation(name: str, make: Callable[[], nn.Module]) -> None:
    """Register two layers with an activation of torch.nn between them."""

    def builder(d: np.random.Generator) -> Net:
        n, h = width(d, 8, 24), width(d, 8, 24)
        return Net(nn.Sequential(nn.Linear(n, h), make(), nn.Linear(h, 5)), ((BATCH, n),))

    ZOO[f"act_{name}"] = builder


for _name, _make in {
    "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "gelu": nn.GELU, "gelu_tanh": lambda: nn.GELU("tanh"), "silu": nn.SiLU,
    "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid, "relu6": nn.ReLU6, "leaky_relu": nn.LeakyReLU,
    "prelu": nn.PReLU, "elu": nn.ELU, "selu": nn.SELU, "celu": nn.CELU, "softplus": nn.Softplus,
    "softsign": nn.Softsign, "mish": nn.Mish, "hardtanh": nn.Hardtanh, "tanhshrink": nn.Tanhshrink,
    "logsigmoid": nn.LogSigmoid, "hardshrink": nn.Hardshrink, "softshrink": nn.Softshrink,
    "threshold": lambda: nn.Threshold(0.1, 0.0), "softmax": lambda: nn.Softmax(-1), "softmin": lambda: nn.Softmin(-1),
    "log_softmax": lambda: nn.LogSoftmax(-1),
}.items():  # fmt: skip
    with_activation(_name, _make)


@net
def glu(d: np.random.Generator) -> Net:
    """A gated layer."""
    n, h = width(d, 8, 24), width(d, 8, 24, 2)
    return Net(nn.Sequential(nn.Linear(n, h), nn.GLU(), nn.Linear(h // 2, 5)), ((BATCH, n),))


class TwoInputs(nn.Module):
    """An image and numbers."""

    def __init__(self, c: int, n: int) -> None:
        super().__init__()
        self.conv, self.numbers, self.fc = nn.Conv2d(1, c, 3), nn.Linear(n, c), nn.Linear(2 * c, 4)

    def forward(self, image: Tensor, numbers: Tensor) -> Tensor:
        a, b = F.relu(self.conv(image)).mean((2, 3)), torch.tanh(self.numbers(numbers))
        return self.fc(torch.cat([a, b], 1))


@net
def two_inputs(d: np.random.Generator) -> Net:
    """Joined behind."""
    c, n = width(d, 4, 8), width(d, 3, 9)
    return Net(TwoInputs(c, n), ((BATCH, 1, 6, 6), (BATCH, n)))


class Siamese(nn.Module):
    """One net for both, and how far apart they are."""

    def __init__(self, n: int, h: int) -> None:
        super().__init__()
        self.body, self.out = nn.Sequential(nn.Linear(n, h), nn.ReLU(), nn.Linear(h, h)), nn.Linear(h, 2)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.out(torch.abs(self.body(a) - self.body(b)))


@net
def siamese(d: np.random.Generator) -> Net:
    """Shared weights."""
    n = width(d, 6, 14)
    return Net(Siamese(n, width(d, 6, 14)), ((BATCH, n), (BATCH, n)))


class TwoOutputs(nn.Module):
    """Scores, and what they come from."""

    def __init__(self, n: int, h: int) -> None:
        super().__init__()
        self.body, self.out = nn.Linear(n, h), nn.Linear(h, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sigmoid(self.body(x))
        return self.out(y), y


@net
def two_outputs(d: np.random.Generator) -> Net:
    """The loss reads the first."""
    n = width(d, 6, 14)
    return Net(TwoOutputs(n, width(d, 6, 14)), ((BATCH, n),))
