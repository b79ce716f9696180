"""A block of MobileNetV3: expanded, depthwise 5x5, channels weighed by squeeze and excite, projected; a shortcut."""

from pathlib import Path
from typing import Any

from .parts.convnet import ConvNet
from .parts.generator import main

SIZE, CHANNELS, EXPANDED, SQUEEZED, CLASSES = 16, 16, 48, 12, 10


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    net = ConvNet("squeeze_excite", (batch, 3, SIZE, SIZE), seed, batch_norm=True)

    def swish(label: str) -> None:
        net.node("HardSwish", f"{label}.swish", net.x)

    net.conv("stem", CHANNELS, (3, 3), stride=2)
    swish("stem")
    shortcut = net.x
    net.conv("expand", EXPANDED, (1, 1))
    swish("expand")
    net.conv("depthwise", EXPANDED, (5, 5), depthwise=True)
    swish("depthwise")
    image, shape, net.batch_norm = net.x, net.shape, False
    net.node("GlobalAveragePool", "squeeze", image)
    net.shape = (batch, EXPANDED, 1, 1)
    net.conv("reduce", SQUEEZED, (1, 1))
    net.relu("reduce.relu")
    net.conv("excite", EXPANDED, (1, 1))
    weights = net.node("HardSigmoid", "excite.gate", net.x, alpha=1 / 6, beta=0.5)
    net.node("Mul", "weighed", image, weights)
    net.shape, net.batch_norm = shape, True
    net.conv("project", CHANNELS, (1, 1))
    net.node("Add", "shortcut", net.x, shortcut)
    net.node("GlobalAveragePool", "pool", net.x)
    net.classes(CLASSES)
    return net.case(out, samples, seed + 1, **{"learning_rate": 0.02} | options)


if __name__ == "__main__":
    main(generate)
