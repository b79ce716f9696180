"""MobileNetV1 of width 0.25 for visual wake words: 96x96 colour images, two classes, cross entropy."""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

BLOCKS = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
"""Channels and stride of each depthwise-separable block."""


def generate(
    out: Path,
    *,
    batch: int = 1,
    samples: int = 4,
    seed: int = 0,
    batch_norm: bool = True,
    fresh_norms: bool = False,
    **options: Any,
) -> Path:
    """Write a MobileNetV1 case to `out`; returns its *_train folder."""
    net = ConvNet("mobilenet_v1", (batch, 3, 96, 96), seed, batch_norm, fresh_norms)
    net.conv("stem", 8, (3, 3), 2)
    net.relu("stem.relu")
    for i, (channels, stride) in enumerate(BLOCKS, 1):
        net.separable(f"block{i}", channels, stride)
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(2)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.002} | options)


if __name__ == "__main__":
    main(generate, ["batch_norm"])
