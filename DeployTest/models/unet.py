"""A U-Net of two levels: one is brought up by a transposed convolution, one by nearest pixels and a convolution."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .parts.convnet import ConvNet
from .parts.generator import Value, main, save_forward, training_case

SIZE, CHANNELS, OUTPUTS = 16, 8, 3


class UNet(ConvNet):
    """Its levels, downwards and upwards."""

    def level(self, label: str, channels: int) -> Value:
        """A convolution with Relu."""
        self.conv(label, channels, (3, 3))
        return self.relu(f"{label}.relu")

    def down(self, label: str) -> None:
        """The largest of each four."""
        self.node("MaxPool", label, self.x, kernel_shape=(2, 2), strides=(2, 2))
        self.shape = (*self.shape[:2], self.shape[2] // 2, self.shape[3] // 2)

    def transposed(self, label: str, channels: int) -> None:
        """Twice the size by a transposed convolution with bias."""
        drawn = self.generator.standard_normal((self.shape[1], channels, 2, 2)) * np.sqrt(1 / self.shape[1])
        bias = self.generator.uniform(-0.1, 0.1, channels)
        parts = [gs.Constant(f"{label}.{n}", a.astype(np.float32)) for n, a in (("weight", drawn), ("bias", bias))]
        self.node("ConvTranspose", label, self.x, *parts, kernel_shape=(2, 2), strides=(2, 2))
        self.shape = (self.shape[0], channels, 2 * self.shape[2], 2 * self.shape[3])

    def nearest(self, label: str) -> None:
        """Twice the size by repeated pixels."""
        scales = gs.Constant(f"{label}.scales", np.array([1, 1, 2, 2], np.float32))
        places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
        self.node("Resize", label, self.x, gs.Variable.empty(), scales, **places)
        self.shape = (*self.shape[:2], 2 * self.shape[2], 2 * self.shape[3])

    def joined(self, label: str, other: Value, channels: int) -> None:
        """The channels of another value behind these."""
        self.node("Concat", label, self.x, other, axis=1)
        self.shape = (self.shape[0], self.shape[1] + channels, *self.shape[2:])


def generate(out: Path, *, batch: int = 1, samples: int = 4, seed: int = 0, **options: Any) -> Path:
    """Write a case to `out`; returns its *_train folder."""
    net = UNet("unet", (batch, OUTPUTS, SIZE, SIZE), seed, batch_norm=False)
    first = net.level("first", CHANNELS)
    net.down("down1")
    second = net.level("second", 2 * CHANNELS)
    net.down("down2")
    net.level("deepest", 2 * CHANNELS)
    net.transposed("up2", 2 * CHANNELS)
    net.joined("join2", second, 2 * CHANNELS)
    net.level("third", CHANNELS)
    net.nearest("up1")
    net.joined("join1", first, CHANNELS)
    net.level("fourth", CHANNELS)
    net.conv("last", OUTPUTS, (1, 1))
    path = save_forward(out / "unet.onnx", net.graph, net.x, net.shape)
    return training_case(
        path, "mse", r"(weight|bias)$", samples=samples, seed=seed + 1, **{"learning_rate": 0.1} | options
    ).train


if __name__ == "__main__":
    main(generate)
