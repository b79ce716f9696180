"""LeNet with Tanh: two convolutions, each with the means of its fours, and two dense layers."""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

SIZE, CHANNELS, HIDDEN, CLASSES = 16, (6, 16), 32, 10


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    net = ConvNet("tanh_lenet", (batch, 1, SIZE, SIZE), seed, batch_norm=False)
    for number, channels in enumerate(CHANNELS, 1):
        net.conv(f"conv{number}", channels, (5, 5))
        net.node("Tanh", f"tanh{number}", net.x)
        net.node("AveragePool", f"pool{number}", net.x, kernel_shape=(2, 2), strides=(2, 2))
        net.shape = (*net.shape[:2], net.shape[2] // 2, net.shape[3] // 2)
    net.conv("conv3", HIDDEN, (net.shape[2], net.shape[3]), stride=net.shape[2])
    net.node("Tanh", "tanh3", net.x)
    net.classes(CLASSES)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.05} | options)


if __name__ == "__main__":
    main(generate)
