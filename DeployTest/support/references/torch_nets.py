"""The convolutional models, layer by layer from their published tables, and an encoder, in PyTorch: needs torch."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, max_pool2d, pad, relu

Pads = tuple[int, int, int, int]
NONE, ROUND, AFTER = (0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1)
"""Pads left, right, top and bottom, such that the output has size / stride elements."""


class Layer(nn.Conv2d):
    """A convolution and, below the name `bn`, its batch norm; without that it has a bias."""

    def __init__(
        self, inputs: int, outputs: int, kernel: tuple[int, int], stride: int, pads: Pads, groups: int, norm: bool
    ) -> None:
        """Build the convolution, and the batch norm or a bias."""
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=not norm)
        self.pads, self.bn = pads, nn.BatchNorm2d(outputs) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """All of it."""
        return self.bn(super().forward(pad(x, self.pads)))


class Separable(nn.Module):
    """Depthwise 3x3, Relu, pointwise, Relu."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: bool) -> None:
        """Layers by name."""
        super().__init__()
        pads = ROUND if stride == 1 else AFTER
        self.depthwise = Layer(inputs, inputs, (3, 3), stride, pads, inputs, norm)
        self.pointwise = Layer(inputs, outputs, (1, 1), 1, NONE, 1, norm)

    def forward(self, x: Tensor) -> Tensor:
        """All of it."""
        return relu(self.pointwise(relu(self.depthwise(x))))


class Residual(nn.Module):
    """Two 3x3 convolutions with a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: bool) -> None:
        """Layers by name."""
        super().__init__()
        self.conv1 = Layer(inputs, outputs, (3, 3), stride, ROUND if stride == 1 else AFTER, 1, norm)
        self.conv2 = Layer(outputs, outputs, (3, 3), 1, ROUND, 1, norm)
        wider = inputs != outputs
        self.shortcut = Layer(inputs, outputs, (1, 1), stride, NONE, 1, norm) if wider else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """All of it."""
        return relu(self.conv2(relu(self.conv1(x))) + self.shortcut(x))


class Classifier(nn.Module):
    """A first layer, blocks, the mean of each channel, and a fully connected layer."""

    def __init__(self, stem: Layer, blocks: dict[str, nn.Module], features: int, classes: int) -> None:
        """Layers by name."""
        super().__init__()
        self.stem, self.blocks, self.fc = stem, list(blocks.values()), nn.Linear(features, classes)
        for name, block in blocks.items():
            self.add_module(name, block)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


def dscnn(norm: bool) -> Classifier:
    """49x10 -> 25x5, then four blocks of that size."""
    stem = Layer(1, 64, (10, 4), 2, (1, 1, 4, 5), 1, norm)
    return Classifier(stem, {f"block{i}": Separable(64, 64, 1, norm) for i in (1, 2, 3, 4)}, 64, 12)


def resnet8(norm: bool) -> Classifier:
    """32x32 -> 32x32 -> 16x16 -> 8x8."""
    widths = ((16, 16, 1), (16, 32, 2), (32, 64, 2))
    stacks = {f"stack{i}": Residual(*width, norm) for i, width in enumerate(widths, 1)}
    return Classifier(Layer(3, 16, (3, 3), 1, ROUND, 1, norm), stacks, 64, 10)


def mobilenet_v1(norm: bool) -> Classifier:
    """96x96 -> 48x48 -> 24x24 -> 12x12 -> 6x6 -> 3x3, a quarter of the published widths."""
    widths = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    widths += [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]
    blocks = {f"block{i}": Separable(a // 4, b // 4, s, norm) for i, (a, b, s) in enumerate(widths, 1)}
    return Classifier(Layer(3, 8, (3, 3), 2, AFTER, 1, norm), blocks, 256, 2)


class Digits(nn.Module):
    """A convolution, the largest of each four, and scores."""

    def __init__(self) -> None:
        """Layers by name."""
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.fc(max_pool2d(relu(self.conv(x)), 2).flatten(1))


def digits(norm: bool) -> Digits:
    """8x8 -> 4x4, without norms."""
    del norm
    return Digits()


class Weighted(nn.Module):
    """x W + b, with W as [in, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Weights to be loaded."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """All of it."""
        return x @ self.weight + self.bias


class Encoder(nn.Module):
    """One-head attention and two layers, each after a layer norm and with a shortcut around it; then a classifier."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        """Layers by name."""
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.query, self.key, self.value, self.project = (Weighted(width, width) for _ in range(4))
        self.expand, self.contract = Weighted(width, hidden), Weighted(hidden, width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        seen = self.norm1(x)
        scores = self.query(seen) @ self.key(seen).transpose(1, 2) * seen.shape[-1] ** -0.5
        x = x + self.project(scores.softmax(-1) @ self.value(seen))
        x = x + self.contract(gelu(self.expand(self.norm2(x))))
        return self.fc(self.norm3(x).mean(1))


def train(
    net: nn.Module, samples: list[tuple[Tensor, Tensor]], rate: float, passes: int, n_accum: int
) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and final weights of plain SGD in float64, where an update takes the sum of the passes' gradients."""
    torch.set_num_threads(1)  # small layers lose by threads, most of all beside other processes
    net.double().train()
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for index in range(passes):
        if index % n_accum == 0:
            optimizer.zero_grad()
        x, labels = samples[index % len(samples)]
        loss = cross_entropy(net(x.double()), labels)
        loss.backward()
        losses.append(loss.item())
        if index % n_accum == n_accum - 1:
            optimizer.step()
    return losses, {name: weight.detach() for name, weight in net.named_parameters()}
