"""Small networks drawn by seed, of which a training step takes some 100 000 cycles on the cluster.

Convolutions and depthwise ones, with and without norms, then attention, dense layers, or a mean over places.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from DeployTest.models.parts.convnet import ConvNet
from DeployTest.models.parts.encoder import Encoder

SEEDS = range(10)
LEAST, MOST = 20_000, 350_000
"""Multiply-accumulates forward; a training step has some three times as many."""
TAILS = ("mean", "attention", "dense")
CLASSES = 10


@dataclass(frozen=True)
class Layer:
    """A convolution over planes with its Relu, a depthwise one with a pointwise one behind, or maxima of 3x3 by 2."""

    kind: str
    channels: int = 0
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1

    def __str__(self) -> str:
        if self.kind == "pool":
            return self.kind
        size = f" {self.kernel[0]}x{self.kernel[1]}" if self.kind == "conv" else ""
        return f"{self.kind}{size} {self.channels}{' /2' if self.stride > 1 else ''}"


@dataclass(frozen=True)
class Network:
    """An image of [channels, height, width], layers, and the tail over what they leave.

    `hidden` is the width of the hidden layer of a dense tail, and of each encoder block, of which there are `blocks`.
    """

    seed: int
    image: tuple[int, int, int]
    batch_norm: bool
    layers: tuple[Layer, ...]
    tail: str
    hidden: int
    blocks: int
    heads: int

    @property
    def name(self) -> str:
        """Image, layers and tail."""
        tails = {"mean": "mean", "dense": f"dense {self.hidden}"}
        tails["attention"] = f"{self.blocks} x attention {self.heads} heads, feed {self.hidden}"
        norm = ["norms"] if self.batch_norm else []
        return ", ".join(["x".join(map(str, self.image)), *map(str, self.layers), *norm, tails[self.tail]])

    def macs(self) -> int:
        """Multiply-accumulates of a forward pass."""
        (channels, height, width), total = self.image, 0
        for layer in self.layers:
            if layer.kind == "separable":
                height, width = -(-height // layer.stride), -(-width // layer.stride)
                total += height * width * channels * (9 + layer.channels)
            elif layer.kind == "conv":
                height, width = -(-height // layer.stride), -(-width // layer.stride)
                total += height * width * channels * layer.channels * layer.kernel[0] * layer.kernel[1]
            else:
                height, width = -(-height // 2), -(-width // 2)
            channels = layer.channels or channels
        places = height * width
        if self.tail == "dense":
            return total + (places * channels + CLASSES) * self.hidden
        if self.tail == "attention":
            total += self.blocks * places * channels * (4 * channels + 2 * places + 2 * self.hidden)
        return total + channels * CLASSES

    def write(self, out: Path) -> Path:
        """Write the training case to `out`; returns its *_train folder."""
        net = ConvNet("drawn", (1, *self.image), self.seed, self.batch_norm)
        for number, layer in enumerate(self.layers):
            label = f"layer{number}"
            if layer.kind == "pool":
                net.pool(label)
            elif layer.kind == "separable":
                net.separable(label, layer.channels, layer.stride)
            else:
                net.conv(label, layer.channels, layer.kernel, layer.stride)
                net.relu(f"{label}.relu")
        {"mean": self._mean, "dense": self._dense, "attention": self._attention}[self.tail](net)
        net.classes(CLASSES)
        return net.case(out, samples=2, seed=self.seed + 1)

    def _mean(self, net: ConvNet) -> None:
        net.node("GlobalAveragePool", "mean", net.x)

    def _dense(self, net: ConvNet) -> None:
        net.node("Flatten", "rows", net.x)
        net.dense("hidden", int(np.prod(net.shape[1:])), self.hidden)
        net.relu("hidden.relu")

    def _attention(self, net: ConvNet) -> None:
        width = net.shape[1]
        encoder = Encoder(net.graph, net.generator, (1, net.tokens("tokens"), width))
        x = net.x
        for number in range(self.blocks):
            label = f"block{number}"
            mixed = encoder.attention(f"{label}.", encoder.norm(f"{label}.norm1", x), self.heads)
            x = encoder.node("Add", f"{label}.residual1", mixed, x)
            fed = encoder.feed(f"{label}.", encoder.norm(f"{label}.norm2", x), self.hidden)
            x = encoder.node("Add", f"{label}.residual2", fed, x)
        net.x = encoder.node("ReduceMean", "mean", encoder.norm("norm", x), axes=[1], keepdims=0)


def drawn(seed: int) -> Network:
    """The network of a seed: the first drawn whose work lies between the bounds; tails take turns."""
    draw = np.random.default_rng(seed)

    def one(*values: int) -> int:
        return int(draw.choice(values))

    def layer(kind: str, channels: int) -> Layer:
        if kind == "pool":
            return Layer(kind)
        sizes = ((1, 1), (3, 3), (3, 3), (5, 5), (5, 3))
        return Layer(kind, channels, sizes[one(*range(len(sizes)))] if kind == "conv" else (3, 3), one(1, 1, 2))

    while True:
        image = (one(1, 2, 3), one(8, 12, 16, 20, 24, 31), one(8, 10, 16, 20, 24, 32))
        layers = [Layer("conv", one(8, 12, 16, 24, 32), (3, 3), one(1, 2))]
        for _ in range(one(1, 2, 3)):
            layers.append(
                layer(str(draw.choice(["conv", "separable", "separable", "pool"])), one(8, 16, 20, 24, 32, 48))
            )
        norms, hidden, blocks, heads = bool(one(0, 1)), one(24, 32, 48, 64), one(1, 2), one(1, 2, 4)
        network = Network(seed, image, norms, tuple(layers), TAILS[seed % len(TAILS)], hidden, blocks, heads)
        if LEAST <= network.macs() <= MOST:
            return network
