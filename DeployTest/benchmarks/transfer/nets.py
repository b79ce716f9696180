"""The three nets of the benchmark, in PyTorch: `features`, which is pretrained and frozen, and `head`; needs torch."""

from torch import Tensor, nn


def _conv(
    inputs: int, outputs: int, kernel: int | tuple[int, int], stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    pads = tuple((side - 1) // 2 for side in sides)
    return [nn.Conv2d(inputs, outputs, sides, stride, pads, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


class Added(nn.Module):
    """A branch, added to its input or to a product of it, and what follows the sum."""

    def __init__(self, branch: nn.Module, beside: nn.Module | None = None, behind: nn.Module | None = None) -> None:
        """Keep the parts."""
        super().__init__()
        self.branch, self.beside, self.behind = branch, beside or nn.Identity(), behind or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Of an image."""
        return self.behind(self.branch(x) + self.beside(x))


def _ended(layers: list[nn.Module], width: int, classes: int) -> nn.Sequential:
    net = nn.Sequential()
    net.add_module("features", nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    net.add_module("head", nn.Linear(width, classes))
    return net


def mobilenet_v2(classes: int, width: float = 0.35) -> nn.Sequential:
    """MobileNetV2 of a width: Sandler et al., 2018, table 2."""

    def rounded(channels: float) -> int:
        near = max(8, int(channels + 4) // 8 * 8)
        return near + 8 if near < 0.9 * channels else near

    channels = rounded(32 * width)
    layers = [*_conv(3, channels, 3, 2), nn.ReLU6()]
    for expansion, outputs, count, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for index in range(count):
            inside, outside, step = channels * expansion, rounded(outputs * width), stride if index == 0 else 1
            block = [*_conv(channels, inside, 1), nn.ReLU6()] if expansion > 1 else []
            block += [*_conv(inside, inside, 3, step, inside), nn.ReLU6(), *_conv(inside, outside, 1)]
            adds = step == 1 and channels == outside
            layers += [Added(nn.Sequential(*block))] if adds else block
            channels = outside
    return _ended([*layers, *_conv(channels, 1280, 1), nn.ReLU6()], 1280, classes)


def resnet8(classes: int) -> nn.Sequential:
    """The residual net of MLPerf Tiny: three stages of 16, 32 and 64 channels."""
    layers, channels = [*_conv(3, 16, 3), nn.ReLU()], 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        branch = nn.Sequential(*_conv(channels, outputs, 3, stride), nn.ReLU(), *_conv(outputs, outputs, 3))
        beside = None if stride == 1 else nn.Sequential(*_conv(channels, outputs, 1, stride))
        layers.append(Added(branch, beside, nn.ReLU()))
        channels = outputs
    return _ended(layers, channels, classes)


def dscnn(classes: int) -> nn.Sequential:
    """The keyword net of MLPerf Tiny: four separable blocks of 64 channels."""
    layers = [*_conv(1, 64, (9, 5), 2), nn.ReLU()]
    for _ in range(4):
        layers += [*_conv(64, 64, 3, 1, 64), nn.ReLU(), *_conv(64, 64, 1), nn.ReLU()]
    return _ended(layers, 64, classes)
