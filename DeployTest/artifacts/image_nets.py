"""Convolutional nets, and the MLPs."""

import torch
from net_parts import CLASSES, Apply, Residual, conv_bn, head, net
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


@net
def mlp_relu() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, CLASSES))


@net
def mlp_gelu() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, CLASSES))


@net
def mlp_tanh_regression() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, 3))


@net
def mlp_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Linear(24, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, 16),
        nn.BatchNorm1d(16, momentum=0.3),
        nn.ReLU(),
        nn.Linear(16, CLASSES),
    )


@net
def multi_label() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 32), nn.LeakyReLU(0.1), nn.LayerNorm(32), nn.Linear(32, 5))


@net
def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Linear(24, 16), nn.Sigmoid(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 16), nn.Sigmoid(), nn.Linear(16, 24)
    )


@net
def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 24),
        nn.Tanh(),
        nn.Linear(24, CLASSES),
    )


@net
def vgg() -> nn.Module:
    return nn.Sequential(
        conv_bn(3, 8, act=nn.ReLU()),
        conv_bn(8, 8, act=nn.ReLU()),
        nn.MaxPool2d(2),
        conv_bn(8, 12, act=nn.ReLU()),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12 * 9, 16),
        nn.ReLU(),
        nn.Linear(16, CLASSES),
    )


@net
def resnet() -> nn.Module:
    first = Residual(nn.Sequential(conv_bn(8, 8, act=nn.ReLU()), conv_bn(8, 8)), act=nn.ReLU())
    body = nn.Sequential(conv_bn(8, 12, stride=2, act=nn.ReLU()), conv_bn(12, 12))
    second = Residual(body, conv_bn(8, 12, 1, 2), nn.ReLU())
    return nn.Sequential(conv_bn(3, 8, act=nn.ReLU()), first, second, head(12))


@net
def resnet_bottleneck() -> nn.Module:
    body = nn.Sequential(conv_bn(8, 4, 1, act=nn.ReLU()), conv_bn(4, 4, act=nn.ReLU()), conv_bn(4, 16, 1))
    return nn.Sequential(
        conv_bn(3, 8, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1), Residual(body, conv_bn(8, 16, 1), nn.ReLU()), head(16)
    )


@net
def mobilenet_v1() -> nn.Module:
    return nn.Sequential(
        conv_bn(3, 8, stride=2, act=nn.ReLU()),
        conv_bn(8, 8, groups=8, act=nn.ReLU()),
        conv_bn(8, 12, 1, act=nn.ReLU()),
        conv_bn(12, 12, stride=2, groups=12, act=nn.ReLU()),
        conv_bn(12, 16, 1, act=nn.ReLU()),
        head(16),
    )


@net
def mobilenet_v2() -> nn.Module:
    def inverted(c: int) -> nn.Module:
        return Residual(
            nn.Sequential(
                conv_bn(c, 3 * c, 1, act=nn.ReLU6()),
                conv_bn(3 * c, 3 * c, groups=3 * c, act=nn.ReLU6()),
                conv_bn(3 * c, c, 1),
            )
        )

    return nn.Sequential(conv_bn(3, 6, stride=2, act=nn.ReLU6()), inverted(6), inverted(6), head(6))


class SqueezeExcite(nn.Module):
    """Channels scaled by gates that their means give."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, 4, 1),
            nn.ReLU(),
            nn.Conv2d(4, channels, 1),
            Apply(lambda x: F.relu6(x + 3) / 6),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


@net
def mobilenet_v3() -> nn.Module:
    block = nn.Sequential(
        conv_bn(8, 16, 1, act=Apply(lambda x: x * F.relu6(x + 3) / 6)),
        conv_bn(16, 16, 5, groups=16, act=Apply(lambda x: x * F.relu6(x + 3) / 6)),
        SqueezeExcite(16),
        conv_bn(16, 8, 1),
    )
    return nn.Sequential(conv_bn(3, 8, stride=2, act=Apply(lambda x: x * F.relu6(x + 3) / 6)), Residual(block), head(8))


class Dense(nn.Module):
    """Layers that each read all results before them."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        sizes = [channels + i * growth for i in range(layers)]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, growth, 3, padding=1, bias=False)) for n in sizes
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


@net
def densenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        Dense(8, 4, 3),
        conv_bn(20, 10, 1, act=nn.ReLU()),
        nn.AvgPool2d(2),
        head(10),
    )


class Inception(nn.Module):
    """Branches of convolutions, the first of which reads half of the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.one, self.three, self.five = (
            nn.Conv2d(4, 4, 1),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Conv2d(8, 4, 5, padding=2),
        )
        self.pooled, self.head = nn.Conv2d(8, 4, 1), head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        left, right = torch.split(x, 4, 1)
        branches = [self.one(left), self.three(right), self.five(x), self.pooled(F.max_pool2d(x, 3, 1, 1))]
        return self.head(F.relu(torch.cat(branches, 1)))


@net
def inception() -> nn.Module:
    return Inception()


class UNet(nn.Module):
    """Two levels with a skip; `up` makes the larger image of the smaller one."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down1, self.down2 = conv_bn(3, 8, act=nn.ReLU()), conv_bn(8, 12, act=nn.ReLU())
        self.up, self.join, self.out = up, conv_bn(16, 8, act=nn.ReLU()), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        left = self.down1(x)
        right = self.up(self.down2(F.max_pool2d(left, 2)))
        return self.out(self.join(torch.cat([left, right], 1)))


def nearest(x: Tensor) -> Tensor:
    """Each pixel four times; ONNX Runtime has no gradient of Resize without a graphics processor."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


def shuffled(x: Tensor) -> Tensor:
    """Four channels as the pixels of one, as PixelShuffle has it."""
    n, c, h, w = x.shape
    return x.reshape(n, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


@net
def unet_shuffled() -> nn.Module:
    return UNet(nn.Sequential(nn.Conv2d(12, 32, 1), Apply(shuffled)))


@net
def unet_nearest() -> nn.Module:
    return UNet(nn.Sequential(Apply(nearest), nn.Conv2d(12, 8, 3, padding=1)))


class Cropped(nn.Module):
    """A U-Net without padding: the skip is cropped to what it joins, and scores are of every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3, padding=1)
        self.wide, self.out = nn.Conv2d(8, 24, 1), nn.Conv2d(12, CLASSES, 3)

    def forward(self, x: Tensor) -> Tensor:
        left = F.relu(self.down(x))
        right = shuffled(self.wide(F.relu(self.deep(F.max_pool2d(left, 2)))))[:, :, 1:-1, 1:-1]
        scores = self.out(torch.cat([left[:, :, 1:-1, 1:-1], right], 1))
        return scores.permute(0, 2, 3, 1).reshape(-1, CLASSES)


@net
def unet_cropped() -> nn.Module:
    return Cropped()


class GroupNorm(nn.Module):
    """PyTorch's, written out: ONNX Runtime has no gradient of InstanceNormalization, as which it is exported."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(channels, 1, 1)), nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        groups = x.reshape(x.shape[0], self.groups, -1)
        centred = groups - groups.mean(-1, keepdim=True)
        deviation = torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
        return (centred / deviation).reshape(x.shape) * self.weight + self.bias


@net
def group_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 12, 3, 2, 1),
        GroupNorm(3, 12),
        nn.SiLU(),
        head(12),
    )


@net
def instance_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), GroupNorm(8, 8), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))


class ChannelsLast(nn.Module):
    """ConvNeXt's block: depthwise, then layer norm and two dense layers over channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.wide, self.narrow = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(F.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


@net
def convnext() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), ChannelsLast(8), ChannelsLast(8), head(8))


@net
def frozen_backbone() -> nn.Module:
    return nn.Sequential(conv_bn(3, 8, act=nn.ReLU()), conv_bn(8, 8, stride=2, act=nn.ReLU()), head(8))
