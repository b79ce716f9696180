"""ResNet8 for CIFAR-10: 32x32 colour images, three residual stacks of 16, 32 and 64 channels, ten classes.

With 3, 5 and 9 blocks in each stack it is ResNet-20, -32 and -56.
"""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

STACKS = ((16, 1), (32, 2), (64, 2))
"""Channels and stride of each stack."""


def residual(net: ConvNet, label: str, channels: int, stride: int) -> None:
    """Two 3x3 convolutions beside a shortcut, which is a strided 1x1 convolution where the shape changes."""
    x, shape = net.x, net.shape
    net.conv(f"{label}.conv1", channels, (3, 3), stride)
    net.relu(f"{label}.relu1")
    y, out = net.conv(f"{label}.conv2", channels, (3, 3)), net.shape
    net.x, net.shape = x, shape
    if shape != out:
        net.conv(f"{label}.shortcut", channels, (1, 1), stride)
    net.node("Add", f"{label}.add", y, net.x)
    net.relu(f"{label}.relu2")


def generate(
    out: Path,
    *,
    batch: int = 1,
    samples: int = 4,
    seed: int = 0,
    batch_norm: bool = True,
    blocks: int = 1,
    **options: Any,
) -> Path:
    """Write a ResNet8 case to `out`; returns its *_train folder."""
    net = ConvNet("resnet8", (batch, 3, 32, 32), seed, batch_norm)
    net.conv("stem", 16, (3, 3))
    net.relu("stem.relu")
    for i, (channels, stride) in enumerate(STACKS, 1):
        residual(net, f"stack{i}", channels, stride)
        for block in range(1, blocks):
            residual(net, f"stack{i}.block{block}", channels, 1)
    size = net.shape[2:]
    net.node("AveragePool", "pool", net.x, kernel_shape=size, strides=size)
    net.classes(10)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.004} | options)


if __name__ == "__main__":
    main(generate, ["batch_norm"])
