"""Ordinary PyTorch modules, of widths drawn from a seed: needs torch. Half of them are modules of torch.nn as they are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


# ---- fully connected, and every activation ----


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


# ---- convolutional ----


@net
def lenet_tanh(d: np.random.Generator) -> Net:
    """LeNet with tanh and means."""
    a, b = width(d, 3, 8), width(d, 6, 16)
    layers = [nn.Conv2d(1, a, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(a, b, 5), nn.Tanh(), nn.AvgPool2d(2)]
    return Net(nn.Sequential(*layers, nn.Flatten(), nn.Linear(b, 10)), ((BATCH, 1, 12, 12),))


@net
def lenet_relu(d: np.random.Generator) -> Net:
    """LeNet with Relu and maxima."""
    a, b = width(d, 3, 8), width(d, 6, 16)
    layers = [nn.Conv2d(1, a, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(a, b, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return Net(nn.Sequential(*layers, nn.Flatten(), nn.Linear(b, 10)), ((BATCH, 1, 12, 12),))


class BasicBlock(nn.Module):
    """ResNet's block."""

    def __init__(self, c: int, out: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, out, 3, stride, 1, bias=False), norm(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), norm(out)
        same = stride == 1 and c == out
        self.down = nn.Identity() if same else nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), norm(out))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.down(x))


def _resnet(d: np.random.Generator, norm: Callable[[int], nn.Module]) -> nn.Module:
    c = width(d, 4, 8, 4)
    blocks = [BasicBlock(c, c, 1, norm), BasicBlock(c, 2 * c, 2, norm)]
    return nn.Sequential(nn.Conv2d(3, c, 3, padding=1), norm(c), nn.ReLU(inplace=True), *blocks, *head(2 * c, 6))


@net
def resnet_fresh(d: np.random.Generator) -> Net:
    """Batch norms that train."""
    return Net(_resnet(d, nn.BatchNorm2d), ((BATCH, 3, 8, 8),))


@net
def resnet_frozen(d: np.random.Generator) -> Net:
    """Batch norms with statistics from before."""
    module = _resnet(d, nn.BatchNorm2d)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()
            layer.running_mean.normal_(0, 0.2)  # type: ignore[union-attr,operator]
            layer.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr,operator]
    return Net(module, ((BATCH, 3, 8, 8),))


@net
def resnet_group_norm(d: np.random.Generator) -> Net:
    """Group norms."""
    return Net(_resnet(d, lambda c: nn.GroupNorm(2, c)), ((BATCH, 3, 8, 8),))


@net
def instance_norm(d: np.random.Generator) -> Net:
    """Instance norms with scale and bias."""
    c = width(d, 4, 10)
    layers = [nn.Conv2d(3, c, 3, padding=1), nn.InstanceNorm2d(c, affine=True), nn.ReLU(), *head(c, 5)]
    return Net(nn.Sequential(*layers), ((BATCH, 3, 8, 8),))


@net
def batch_norm_1d(d: np.random.Generator) -> Net:
    """Rows, normalized over the batch."""
    n, h = width(d, 8, 24), width(d, 8, 24)
    return Net(nn.Sequential(nn.Linear(n, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, 5)), ((6, n),))


class SqueezeExcite(nn.Module):
    """Channels weighed by a small net over their means."""

    def __init__(self, c: int, inner: int) -> None:
        super().__init__()
        self.pool, self.down, self.up = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, inner, 1), nn.Conv2d(inner, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(self.pool(x)))))


class InvertedResidual(nn.Module):
    """MobileNet's block: wider, depthwise, narrower."""

    def __init__(self, c: int, out: int, stride: int, activation: Callable[[], nn.Module], excite: bool) -> None:
        super().__init__()
        inner = 3 * c
        layers: list[nn.Module] = [nn.Conv2d(c, inner, 1, bias=False), nn.BatchNorm2d(inner), activation()]
        layers += [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), activation()]
        layers += [SqueezeExcite(inner, c)] if excite else []
        self.layers = nn.Sequential(*layers, nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = stride == 1 and c == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.shortcut else self.layers(x)


def _mobile(d: np.random.Generator, activation: Callable[[], nn.Module], excite: bool) -> nn.Module:
    c = width(d, 4, 8)
    blocks = [InvertedResidual(c, c, 1, activation, excite), InvertedResidual(c, c + 4, 2, activation, excite)]
    stem = [nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), activation()]
    return nn.Sequential(*stem, *blocks, *head(c + 4, 5))


@net
def mobilenet_v2(d: np.random.Generator) -> Net:
    """Blocks with Relu6."""
    return Net(_mobile(d, nn.ReLU6, False), ((BATCH, 3, 16, 16),))


@net
def mobilenet_v3(d: np.random.Generator) -> Net:
    """Blocks with hardswish and squeeze-excite."""
    return Net(_mobile(d, nn.Hardswish, True), ((BATCH, 3, 16, 16),))


class ShuffleBlock(nn.Module):
    """ShuffleNet's block: one half through the layers, then channels in turn."""

    def __init__(self, c: int) -> None:
        super().__init__()
        h = c // 2
        self.layers = nn.Sequential(
            nn.Conv2d(h, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU(),
            nn.Conv2d(h, h, 3, padding=1, groups=h, bias=False), nn.BatchNorm2d(h),
            nn.Conv2d(h, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU(),
        )  # fmt: skip
        self.shuffle = nn.ChannelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        return self.shuffle(torch.cat([kept, self.layers(changed)], 1))


@net
def shufflenet(d: np.random.Generator) -> Net:
    """Two blocks."""
    c = width(d, 4, 12, 2)
    return Net(nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), ShuffleBlock(c), ShuffleBlock(c), *head(c, 5)), ((BATCH, 3, 12, 12),))


class DenseLayer(nn.Module):
    """DenseNet's layer: its input and what it adds."""

    def __init__(self, c: int, growth: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(c), nn.Conv2d(c, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


@net
def densenet(d: np.random.Generator) -> Net:
    """Three layers and a transition."""
    c, k = width(d, 4, 8), width(d, 3, 6)
    layers = [DenseLayer(c + i * k, k) for i in range(3)]
    out = c + 3 * k
    return Net(
        nn.Sequential(nn.Conv2d(3, c, 3, padding=1), *layers, nn.Conv2d(out, c, 1), nn.AvgPool2d(2), *head(c, 5)),
        ((BATCH, 3, 8, 8),),
    )


class UNet(nn.Module):
    """One step down and up again, with a shortcut."""

    def __init__(self, c: int, up: nn.Module) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, padding=1)
        self.up, self.last, self.out = up, nn.Conv2d(2 * c, c, 3, padding=1), nn.Conv2d(c, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.first(x))
        b = F.relu(self.down(F.max_pool2d(a, 2)))
        return self.out(F.relu(self.last(torch.cat([a, self.up(b)], 1))))


@net
def unet_transposed(d: np.random.Generator) -> Net:
    """Up by a transposed convolution."""
    c = width(d, 4, 8)
    return Net(UNet(c, nn.ConvTranspose2d(2 * c, c, 2, 2)), ((BATCH, 1, 8, 8),), "mse")


@net
def unet_nearest(d: np.random.Generator) -> Net:
    """Up by repetition."""
    c = width(d, 4, 8)
    up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * c, c, 1))
    return Net(UNet(c, up), ((BATCH, 1, 8, 8),), "mse")


@net
def unet_bilinear(d: np.random.Generator) -> Net:
    """Up by interpolation."""
    c = width(d, 4, 8)
    up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2 * c, c, 1))
    return Net(UNet(c, up), ((BATCH, 1, 8, 8),), "mse")


@net
def pixel_shuffle(d: np.random.Generator) -> Net:
    """Finer places from channels."""
    c = width(d, 4, 8)
    layers = [nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 4, 3, padding=1), nn.PixelShuffle(2)]
    return Net(nn.Sequential(*layers), ((BATCH, 1, 6, 6),), "mse")


@net
def conv_1d(d: np.random.Generator) -> Net:
    """Signals."""
    c = width(d, 4, 10)
    layers = [nn.Conv1d(2, c, 5, 2, 2), nn.BatchNorm1d(c), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(c, c, 3), nn.ReLU()]
    return Net(nn.Sequential(*layers, *head(c, 5)), ((BATCH, 2, 24),))


class Causal(nn.Module):
    """A causal convolution with dilation, and a shortcut."""

    def __init__(self, c: int, dilation: int) -> None:
        super().__init__()
        self.conv, self.before = nn.Conv1d(c, c, 3, dilation=dilation), 2 * dilation

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.conv(F.pad(x, (self.before, 0))))


@net
def tcn(d: np.random.Generator) -> Net:
    """A temporal convolutional net."""
    c = width(d, 4, 10)
    return Net(nn.Sequential(nn.Conv1d(3, c, 1), *[Causal(c, 2**i) for i in range(3)], *head(c, 5)), ((BATCH, 3, 20),))


@net
def conv_3d(d: np.random.Generator) -> Net:
    """Volumes."""
    c = width(d, 3, 6)
    return Net(nn.Sequential(nn.Conv3d(1, c, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), *head(c, 4)), ((BATCH, 1, 4, 6, 6),))


@net
def max_head(d: np.random.Generator) -> Net:
    """The maximum of each channel."""
    c = width(d, 4, 10)
    layers = [nn.Conv2d(3, c, 3, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(c, 5)]
    return Net(nn.Sequential(*layers), ((BATCH, 3, 9, 9),))


@net
def response_norm(d: np.random.Generator) -> Net:
    """AlexNet's norm."""
    c = width(d, 4, 10)
    layers = [nn.Conv2d(3, c, 3), nn.ReLU(), nn.LocalResponseNorm(3), *head(c, 5)]
    return Net(nn.Sequential(*layers), ((BATCH, 3, 7, 7),))


# ---- sequences ----


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


# ---- several inputs and outputs ----


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

