"""Convolutional nets. Needs torch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from DeployTest.suites.zoo_base import BATCH, Net, head, net, width


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
    return Net(
        nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), ShuffleBlock(c), ShuffleBlock(c), *head(c, 5)), ((BATCH, 3, 12, 12),)
    )


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
    return Net(
        nn.Sequential(nn.Conv3d(1, c, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), *head(c, 4)), ((BATCH, 1, 4, 6, 6),)
    )


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
