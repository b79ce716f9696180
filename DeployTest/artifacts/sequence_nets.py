"""Transformers, recurrent nets, and others over tokens."""

import math
from collections.abc import Callable

import torch
from net_parts import CLASSES, Apply, Residual, net
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Attention(nn.Module):
    """Self-attention over [batch, tokens, width], with a mask of the future or without."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        if self.causal:
            scores = scores + torch.full((t, t), -1e4).triu(1)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


def block(
    width: int, act: nn.Module, causal: bool = False, norm: Callable[[int], nn.Module] = nn.LayerNorm
) -> nn.Module:
    """A transformer block with norms in front."""
    mlp = nn.Sequential(norm(width), nn.Linear(width, 2 * width), act, nn.Linear(2 * width, width))
    return nn.Sequential(Residual(nn.Sequential(norm(width), Attention(width, 2, causal))), Residual(mlp))


class Mean(nn.Module):
    """The mean over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Positions(nn.Module):
    """Adds a parameter per token."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, tokens, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.positions


@net
def transformer_encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)
    return nn.Sequential(nn.Linear(6, 16), layer, Mean(), nn.Linear(16, CLASSES))


@net
def vit() -> nn.Module:
    patches = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.Flatten(2), Apply(lambda x: x.transpose(1, 2)))
    return nn.Sequential(
        patches,
        Positions(9, 16),
        block(16, nn.GELU()),
        block(16, nn.GELU()),
        nn.LayerNorm(16),
        Mean(),
        nn.Linear(16, CLASSES),
    )


@net
def gpt() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(20, 16),
        Positions(8, 16),
        block(16, nn.GELU(approximate="tanh"), True),
        nn.LayerNorm(16),
        nn.Linear(16, 20),
        Apply(lambda x: x.reshape(-1, 20)),
    )


class RMSNorm(nn.Module):
    """x / root of the mean of squares, scaled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Gated(nn.Module):
    """Llama's gated dense layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, 24, bias=False), nn.Linear(width, 24, bias=False)
        self.down = nn.Linear(24, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


@net
def llama() -> nn.Module:
    attention = Residual(nn.Sequential(RMSNorm(16), Attention(16, 2, True)))
    return nn.Sequential(
        nn.Embedding(20, 16),
        attention,
        Residual(nn.Sequential(RMSNorm(16), Gated(16))),
        RMSNorm(16),
        nn.Linear(16, 20, bias=False),
        Apply(lambda x: x.reshape(-1, 20)),
    )


@net
def quick_gelu_mixer() -> nn.Module:
    quick = Apply(lambda x: x * torch.sigmoid(1.702 * x))
    turned = Apply(lambda x: x.transpose(1, 2))
    tokens = nn.Sequential(nn.LayerNorm(12), turned, nn.Linear(6, 12), quick, nn.Linear(12, 6), turned)
    channels = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 24), quick, nn.Linear(24, 12))
    return nn.Sequential(nn.Linear(6, 12), Residual(tokens), Residual(channels), Mean(), nn.Linear(12, CLASSES))


class Shifted(nn.Module):
    """Windows of tokens that a roll shifts, as Swin has them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        y = torch.cat([x[:, 1:], x[:, :1]], 1)
        y = self.attention(self.norm(y).reshape(n * 2, t // 2, c)).reshape(n, t, c)
        return x + torch.cat([y[:, -1:], y[:, :-1]], 1)


@net
def swin() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), Shifted(16), Shifted(16), Mean(), nn.Linear(16, CLASSES))


class Recurrent(nn.Module):
    """A recurrent layer whose last, or whose mean, output is classified."""

    def __init__(self, layer: nn.Module, width: int, last: bool = True, tokens: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, 6) if tokens else nn.Identity()
        self.layer, self.last, self.out = layer, last, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(self.embedding(x))
        return self.out(y[:, -1] if self.last else y.mean(1))


@net
def lstm() -> nn.Module:
    return Recurrent(nn.LSTM(6, 12, batch_first=True), 12)


@net
def lstm_text() -> nn.Module:
    return Recurrent(nn.LSTM(6, 8, 2, batch_first=True), 8, False, 20)


class BothWays(nn.Module):
    """A recurrent layer over the tokens, and another over their reverse; ONNX Runtime trains no bidirectional one."""

    def __init__(self) -> None:
        super().__init__()
        self.forth, self.back = (nn.LSTM(6, 8, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        forth, back = self.forth(x)[0], self.back(x.flip(1))[0].flip(1)
        return torch.cat([forth, back], -1), None


@net
def lstm_both_ways() -> nn.Module:
    return Recurrent(BothWays(), 16, False)


@net
def gru() -> nn.Module:
    return Recurrent(nn.GRU(6, 12, batch_first=True), 12)


@net
def gru_text() -> nn.Module:
    return Recurrent(nn.GRU(6, 8, batch_first=True), 8, False, 20)


class Bag(nn.Module):
    """The mean of embeddings, scaled by its length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 12), nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.embedding(x).mean(1)
        return self.out(y / (y.norm(dim=1, keepdim=True) + 1e-3))


@net
def bag_of_words() -> nn.Module:
    return Bag()


@net
def temporal_convolutions() -> nn.Module:
    def layer(dilation: int) -> nn.Module:
        pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        return Residual(nn.Sequential(pad, nn.Conv1d(8, 8, 3, dilation=dilation), nn.ReLU()), act=nn.ReLU())

    return nn.Sequential(
        Apply(lambda x: x.transpose(1, 2)),
        nn.Conv1d(6, 8, 1),
        layer(1),
        layer(2),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


class TwoTowers(nn.Module):
    """Halves of the input through one tower, and their difference and product."""

    def __init__(self) -> None:
        super().__init__()
        self.tower, self.out = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.tower(x[:, :12]), self.tower(x[:, 12:])
        return self.out(torch.cat([torch.abs(a - b), a * b], 1))


@net
def two_towers() -> nn.Module:
    return TwoTowers()
