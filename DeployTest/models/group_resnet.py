"""A residual net with group normalization: a stem and two blocks, the second of half the size, twice the channels."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.convnet import ConvNet
from .parts.generator import Value, main

SIZE, CHANNELS, GROUPS, CLASSES = 16, 16, 4, 10
VERSION = 21
"""Of ONNX, the first whose GroupNormalization has a scale per channel."""


class GroupNet(ConvNet):
    """A net whose convolutions are followed by group normalization."""

    def normed(self, label: str, channels: int, kernel: int, stride: int = 1) -> Value:
        """A convolution with bias, then the norm."""
        self.conv(label, channels, (kernel, kernel), stride)
        scale = (1 + 0.1 * self.generator.standard_normal(channels)).astype(np.float32)
        bias = (0.5 + 0.1 * self.generator.standard_normal(channels)).astype(np.float32)
        parts = [gs.Constant(f"{label}.norm.weight", scale), gs.Constant(f"{label}.norm.bias", bias)]
        return self.node("GroupNormalization", f"{label}.norm", self.x, *parts, num_groups=GROUPS)

    def block(self, label: str, channels: int, stride: int) -> None:
        """Two convolutions, and the shortcut, projected where shapes differ."""
        source, shape = self.x, self.shape
        self.normed(f"{label}.conv1", channels, 3, stride)
        self.relu(f"{label}.relu1")
        deep = self.normed(f"{label}.conv2", channels, 3)
        if self.shape != shape:
            self.x, self.shape = source, shape
            source = self.normed(f"{label}.project", channels, 1, stride)
        self.node("Add", f"{label}.sum", deep, source)
        self.relu(f"{label}.relu2")


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    net = GroupNet("group_resnet", (batch, 3, SIZE, SIZE), seed, batch_norm=False)
    net.graph.opset = VERSION
    net.normed("stem", CHANNELS, 3)
    net.relu("stem.relu")
    net.block("block1", CHANNELS, 1)
    net.block("block2", 2 * CHANNELS, 2)
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(CLASSES)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.02} | options)


if __name__ == "__main__":
    main(generate)
