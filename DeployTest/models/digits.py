"""A small CNN for digits of 8x8 pixels: a convolution of 8 channels, the largest of each four, ten scores."""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

CHANNELS, SIZE = 8, 8


def generate(out: Path, *, batch: int = 4, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    net = ConvNet("digits", (batch, 1, SIZE, SIZE), seed, batch_norm=False)
    net.conv("conv", CHANNELS, (3, 3))
    net.relu("relu")
    net.node("MaxPool", "pool", net.x, kernel_shape=(2, 2), strides=(2, 2))
    net.shape = (batch, CHANNELS * (SIZE // 2) ** 2)
    net.classes(10)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.05} | options)


if __name__ == "__main__":
    main(generate)
