"""DSCNN for keyword spotting: 49x10 features, four depthwise-separable blocks of 64 channels, twelve words."""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

CHANNELS, BLOCKS = 64, 4


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
    """Write a DSCNN case to `out`; returns its *_train folder."""
    net = ConvNet("dscnn", (batch, 1, 49, 10), seed, batch_norm, fresh_norms)
    net.conv("stem", CHANNELS, (10, 4), 2)
    net.relu("stem.relu")
    for i in range(1, BLOCKS + 1):
        net.separable(f"block{i}", CHANNELS)
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(12)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.005} | options)


if __name__ == "__main__":
    main(generate, ["batch_norm"])
