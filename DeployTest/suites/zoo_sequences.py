"""Recurrent nets and transformers, norms over rows. Needs torch."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.zoo_base import BATCH, Net, net, width


class LastOf(nn.Module):
    """A recurrent layer, and scores from what it holds at the end."""

    def __init__(self, layer: nn.RNNBase, features: int) -> None:
        super().__init__()
        self.layer, self.fc = layer, nn.Linear(features, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer(x)[0][:, -1])


@net
def lstm(d: np.random.Generator) -> Net:
    """One layer."""
    n, h = width(d, 3, 6), width(d, 4, 10)
    return Net(LastOf(nn.LSTM(n, h, batch_first=True), h), ((BATCH, 5, n),))


@net
def lstm_both_ways(d: np.random.Generator) -> Net:
    """Two directions."""
    n, h = width(d, 3, 6), width(d, 4, 8)
    return Net(LastOf(nn.LSTM(n, h, batch_first=True, bidirectional=True), 2 * h), ((BATCH, 4, n),))


@net
def gru(d: np.random.Generator) -> Net:
    """Two layers."""
    n, h = width(d, 3, 6), width(d, 4, 8)
    return Net(LastOf(nn.GRU(n, h, 2, batch_first=True), h), ((BATCH, 4, n),))


@net
def rnn(d: np.random.Generator) -> Net:
    """The plain one."""
    n, h = width(d, 3, 6), width(d, 4, 8)
    return Net(LastOf(nn.RNN(n, h, batch_first=True), h), ((BATCH, 5, n),))


class Stated(nn.Module):
    """A recurrent layer of two directions that learns where it starts, and scores from its steps and its ends."""

    def __init__(self, layer: nn.RNNBase, features: int) -> None:
        super().__init__()
        self.layer, self.fc = layer, nn.Linear(2 * features, 4)
        self.starts = nn.ParameterList(
            nn.Parameter(0.3 * torch.randn(2, BATCH, layer.hidden_size)) for _ in range(1 + isinstance(layer, nn.LSTM))
        )

    def forward(self, x: Tensor) -> Tensor:
        """x is [time, batch, features]."""
        steps, ends = self.layer(x, tuple(self.starts) if len(self.starts) > 1 else self.starts[0])
        ends = ends[0] + ends[1] if isinstance(ends, tuple) else ends
        return self.fc(torch.cat([steps.mean(0), ends.transpose(0, 1).flatten(1)], 1))


@net
def lstm_stated(d: np.random.Generator) -> Net:
    """Learned states at the start, and a gradient of both at the end."""
    n, h = width(d, 3, 6), width(d, 4, 10)
    return Net(Stated(nn.LSTM(n, h, bidirectional=True), 2 * h), ((16, BATCH, n),))


@net
def gru_stated(d: np.random.Generator) -> Net:
    """The same of a GRU without biases."""
    n, h = width(d, 3, 6), width(d, 4, 10)
    return Net(Stated(nn.GRU(n, h, bias=False, bidirectional=True), 2 * h), ((16, BATCH, n),))


@net
def rnn_stated(d: np.random.Generator) -> Net:
    """The same of the plain one by relu."""
    n, h = width(d, 3, 6), width(d, 4, 8)
    return Net(Stated(nn.RNN(n, h, nonlinearity="relu", bidirectional=True), 2 * h), ((16, BATCH, n),))


@net
def lstm_long(d: np.random.Generator) -> Net:
    """Many steps."""
    n, h = width(d, 3, 6), width(d, 8, 16)
    return Net(LastOf(nn.LSTM(n, h, batch_first=True), h), ((BATCH, 128, n),))


@net
def gru_long(d: np.random.Generator) -> Net:
    """Many steps."""
    n, h = width(d, 3, 6), width(d, 8, 16)
    return Net(LastOf(nn.GRU(n, h, batch_first=True), h), ((BATCH, 128, n),))


class Words(nn.Module):
    """The mean of the words' vectors."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.table, self.fc = nn.Embedding(count, size), nn.Linear(size, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(self.table(ids).mean(1))


@net
def embedding(d: np.random.Generator) -> Net:
    """A bag of words."""
    count = width(d, 10, 30)
    return Net(Words(count, width(d, 4, 12)), ((BATCH, 7),), ids=count)


class Encoder(nn.Module):
    """torch's encoder layer, and scores from the mean."""

    def __init__(self, size: int, heads: int, first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(size, heads, 2 * size, 0.0, "gelu", batch_first=True, norm_first=first)
        self.fc = nn.Linear(size, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer(x).mean(1))


@net
def transformer_encoder(d: np.random.Generator) -> Net:
    """Norms behind."""
    size = width(d, 8, 16, 4)
    return Net(Encoder(size, 2, False), ((BATCH, 6, size),))


@net
def transformer_norm_first(d: np.random.Generator) -> Net:
    """Norms before."""
    size = width(d, 8, 16, 4)
    return Net(Encoder(size, 4, True), ((BATCH, 5, size),))


class Attention(nn.Module):
    """Attention with one matrix for queries, keys and values."""

    def __init__(self, size: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    """A layer of GPT or ViT."""

    def __init__(self, size: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size, heads, is_causal)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU("tanh"), nn.Linear(2 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small language model whose table is also its last matrix."""

    def __init__(self, count: int, size: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(count, size), nn.Embedding(length, size)
        self.layers, self.norm = nn.Sequential(Layer(size, 2, True), Layer(size, 2, True)), nn.LayerNorm(size)
        self.out = nn.Linear(size, count, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.out(self.norm(self.layers(x))).transpose(1, 2)


@net
def gpt(d: np.random.Generator) -> Net:
    """Two layers, tied weights."""
    count = width(d, 10, 20)
    return Net(GPT(count, width(d, 8, 16, 4), 6), ((BATCH, 6),), ids=count)


class ViT(nn.Module):
    """Patches, a class token, and layers."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(1, size, 4, 4), nn.Parameter(torch.randn(1, 1, size) * 0.1)
        self.places = nn.Parameter(torch.randn(1, 5, size) * 0.1)
        self.layers, self.norm, self.fc = Layer(size, 2, False), nn.LayerNorm(size), nn.Linear(size, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(len(x), -1, -1), y], 1) + self.places
        return self.fc(self.norm(self.layers(y))[:, 0])


@net
def vit(d: np.random.Generator) -> Net:
    """One layer."""
    return Net(ViT(width(d, 8, 16, 4)), ((BATCH, 1, 8, 8),))


@net
def rms_norm(d: np.random.Generator) -> Net:
    """Rows over their root mean square."""
    n = width(d, 8, 16)
    return Net(nn.Sequential(nn.Linear(n, n), nn.RMSNorm(n), nn.SiLU(), nn.Linear(n, 5)), ((BATCH, n),))


@net
def layer_norm(d: np.random.Generator) -> Net:
    """Two equal norms, which stay two."""
    n = width(d, 8, 16)
    layers = [nn.LayerNorm(n), nn.Linear(n, n), nn.LayerNorm(n), nn.Linear(n, 5)]
    return Net(nn.Sequential(*layers), ((BATCH, n),))
