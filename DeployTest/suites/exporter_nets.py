"""Nets with what exporters get wrong: masks, tables, free parameters, tied and equal weights. Needs torch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.zoo_base import BATCH, Net

NETS: dict[str, Callable[[], Net]] = {}
SIZE, LENGTH = 8, 6
SEQUENCE = ((BATCH, LENGTH, SIZE),)


def angles() -> Tensor:
    """Angles of rotary positions."""
    steps = 1 / (100 ** (torch.arange(0, SIZE, 2) / SIZE))
    found = torch.outer(torch.arange(LENGTH).float(), steps)
    return torch.cat([found, found], -1)


def turned(x: Tensor) -> Tensor:
    """The second half, negated, before the first."""
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Rotary(nn.Module):
    """Attention with a causal mask and rotary positions, which are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, 4)
        self.register_buffer("cos", angles().cos())
        self.register_buffer("sin", angles().sin())
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = (y * self.cos + turned(y) * self.sin for y in (q, k))
        return self.out((torch.softmax(q @ k.transpose(-1, -2) * SIZE**-0.5 + self.mask, -1) @ v).mean(1))


class RotaryInside(nn.Module):
    """The same, computed in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        q, at = self.q(x), angles()
        q = q * at.cos() + turned(q) * at.sin()
        hidden = torch.tril(torch.ones(LENGTH, LENGTH)) == 0
        scores = (q @ q.transpose(-1, -2) / SIZE**0.5).masked_fill(hidden, -1e9)
        return self.out((torch.softmax(scores, -1) @ q).mean(1))


class Free(nn.Module):
    """A class token of zeros, a layer scale, a temperature, and buffers beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 4)
        self.scale, self.temperature = nn.Parameter(torch.full((SIZE,), 0.1)), nn.Parameter(torch.tensor(1.3))
        self.token = nn.Parameter(torch.zeros(1, 1, SIZE))
        self.register_buffer("mean", torch.randn(SIZE))
        self.register_buffer("places", torch.randn(1, LENGTH, SIZE))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = torch.cat([self.token.expand(len(x), -1, -1), x - self.mean + self.places], 1)
        return self.out((x + self.scale * torch.tanh(self.layer(x))).mean(1)) * self.temperature


class Places(nn.Module):
    """Learned places, more than are used, and norms without gain."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.norm = nn.Embedding(LENGTH + 4, SIZE), nn.LayerNorm(SIZE, elementwise_affine=False)
        self.group, self.out = nn.GroupNorm(2, LENGTH, affine=False), nn.Linear(SIZE, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.out(self.group(torch.tanh(self.norm(x + self.places(torch.arange(LENGTH))))).mean(1))


class Steps(nn.Module):
    """A recurrent layer written out, from a state of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.state, self.out = nn.Linear(SIZE, 5), nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        h = torch.zeros(len(x), 5)
        for step in x.unbind(1):
            h = torch.tanh(self.inner(step) + self.state(h))
        return self.out(h)


class Stack(nn.Module):
    """Two layers of torch's encoder, which begin with equal weights."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(SIZE, 2, 16, 0.0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(SIZE, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.out(self.layers(x).mean(1))


class TiedLayers(nn.Module):
    """Two layers with one weight, and its transpose in a third."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        h = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.out(F.linear(h, self.first.weight.t()))


class Relative(nn.Module):
    """Attention with learned biases of places, and others that are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 4)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        q, at = self.q(x), torch.arange(LENGTH)
        apart = (at[:, None] - at[None]).abs().float() * -0.5
        return self.out((torch.softmax(q @ q.transpose(-1, -2) + apart + self.places, -1) @ q).mean(1))


def named(name: str, make: Callable[[], nn.Module], inputs: tuple[tuple[int, ...], ...] = SEQUENCE) -> None:
    """Register a net."""
    NETS[name] = lambda: Net(make(), inputs)


named("rotary", Rotary)
named("rotary_inside", RotaryInside)
named("free_parameters", Free)
named("places", Places)
named("steps", Steps)
named("equal_layers", Stack)
named("tied_layers", TiedLayers, ((BATCH, SIZE),))
named("relative_places", Relative)
named(
    "weight_norm",
    lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv1d(LENGTH, 4, 3)), nn.Tanh(), nn.Flatten(), nn.Linear(24, 4)
    ),
)
named(
    "conv_bias_batch_norm",
    lambda: nn.Sequential(nn.Conv1d(LENGTH, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 4)),
)
