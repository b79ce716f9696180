"""Layers of the nets, and the registry of these."""

from collections.abc import Callable

from torch import Tensor, nn

CLASSES = 10
NETS: dict[str, Callable[[], nn.Module]] = {}


def net(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Register a function under its name."""
    NETS[build.__name__] = build
    return build


class Residual(nn.Module):
    """x + body(x), or shortcut(x) + body(x), with an activation behind."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut or nn.Identity(), act or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.shortcut(x) + self.body(x))


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def conv_bn(
    c: int, d: int, k: int = 3, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Sequential:
    """Convolution without bias, batch norm and an activation."""
    conv = nn.Conv2d(c, d, k, stride, k // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(d), *([act] if act else []))


def head(channels: int, classes: int = CLASSES) -> nn.Sequential:
    """Global pooling and a dense layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
