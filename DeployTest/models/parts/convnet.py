"""Layers of convolutional networks, appended to a forward model one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from .generator import Array, Value, forward_graph, layer, save_forward, training_case

Pair = tuple[int, int]


class ConvNet:
    """A forward model under construction: `x` is its newest value, `shape` that value's [N, C, H, W]."""

    def __init__(self, name: str, shape: Sequence[int], seed: int, batch_norm: bool, fresh_norms: bool = False) -> None:
        """Begin with the input; the scales and biases of `fresh_norms` are 1 and 0, as PyTorch's layers start."""
        self.graph, self.batch_norm = forward_graph(name, input=shape), batch_norm
        self.fresh_norms = fresh_norms
        self.x, self.shape = self.graph.inputs[0], tuple(shape)
        self.generator = np.random.default_rng(seed)

    def node(self, op: str, label: str, *inputs: gs.Tensor, **attrs: Any) -> Value:
        """A node named `label`, and the newest value."""
        self.x = layer(self.graph, op, label, inputs, **attrs)
        return self.x

    def conv(self, label: str, outputs: int, kernel: Pair, stride: int = 1, *, depthwise: bool = False) -> Value:
        """A convolution with SAME padding and He-normal weights, then the batch norm; without that it has a bias.

        Pads are explicit, the odd one at the end, as TensorFlow and `SAME_UPPER` have them.
        """
        batch, channels, *size = self.shape
        group = channels if depthwise else 1
        fan_in = channels // group * kernel[0] * kernel[1]
        drawn = self.generator.standard_normal((outputs, channels // group, *kernel))
        parameters = [gs.Constant(f"{label}.weight", (drawn * np.sqrt(2 / fan_in)).astype(np.float32))]
        if not self.batch_norm:
            parameters.append(gs.Constant(f"{label}.bias", self._around(0.0, 0.1, outputs)))
        out = [-(-length // stride) for length in size]
        total = [max((o - 1) * stride + k - length, 0) for o, k, length in zip(out, kernel, size, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
        self.shape = (batch, outputs, *out)
        form = {"kernel_shape": kernel, "strides": (stride, stride), "pads": pads, "group": group}
        self.node("Conv", label, self.x, *parameters, **form)
        return self.norm(f"{label}.bn") if self.batch_norm else self.x

    def norm(self, label: str) -> Value:
        """Batch normalization in training form; its running statistics start at 0 and 1 and are not trained.

        Biases lie about 1, so that few values are close to where Relu bends: there the rounding of one value decides
        whether a gradient passes, and deep chains magnify that until two precisions train to different weights.
        They differ, because a scale before a depthwise layer and its batch norm has no gradient beside equal biases.
        """
        channels = self.shape[1]
        parts = {
            "weight": self._around(1.0, 0.0 if self.fresh_norms else 0.1, channels),
            "bias": self._around(0.0, 0.0, channels) if self.fresh_norms else self._around(1.0, 1.0, channels),
            "running_mean": np.zeros(channels, np.float32),
            "running_var": np.ones(channels, np.float32),
        }
        constants = [gs.Constant(f"{label}.{part}", array) for part, array in parts.items()]
        return self.node("BatchNormalization", label, self.x, *constants, training_mode=1)

    def relu(self, label: str) -> Value:
        """The positive part."""
        return self.node("Relu", label, self.x)

    def separable(self, label: str, outputs: int, stride: int = 1) -> Value:
        """A depthwise 3x3 and a pointwise convolution, each with its batch norm and Relu."""
        self.conv(f"{label}.depthwise", self.shape[1], (3, 3), stride, depthwise=True)
        self.relu(f"{label}.depthwise.relu")
        self.conv(f"{label}.pointwise", outputs, (1, 1))
        return self.relu(f"{label}.pointwise.relu")

    def pool(self, label: str) -> Value:
        """Maxima of windows of 3x3, a stride of 2, one row and column of padding on each side."""
        batch, channels, *size = self.shape
        self.shape = (batch, channels, *(-(-length // 2) for length in size))
        return self.node("MaxPool", label, self.x, kernel_shape=(3, 3), strides=(2, 2), pads=[1, 1, 1, 1])

    def tokens(self, label: str) -> int:
        """Places of the plane as tokens, [N, H * W, C]; how many they are."""
        batch, channels, height, width = self.shape
        shape = gs.Constant(f"{label}.shape", np.array([batch, channels, height * width], np.int64))
        self.node("Transpose", label, self.node("Reshape", f"{label}.flat", self.x, shape), perm=[0, 2, 1])
        return height * width

    def classes(self, count: int) -> None:
        """One row per image, and a fully connected layer of scores."""
        self.node("Flatten", "flatten", self.x)
        self.dense("fc", self.shape[1], count)

    def dense(self, label: str, features: int, count: int) -> Value:
        """A fully connected layer over rows of features."""
        drawn = self.generator.standard_normal((count, features))
        weight = gs.Constant(f"{label}.weight", (drawn * np.sqrt(1 / features)).astype(np.float32))
        self.shape = (self.shape[0], count)
        return self.node(
            "Gemm", label, self.x, weight, gs.Constant(f"{label}.bias", self._around(0.0, 0.1, count)), transB=1
        )

    def case(self, out: Path, samples: int, seed: int, **options: Any) -> Path:
        """Write the case of the model with cross entropy against random labels; returns its *_train folder."""
        path = save_forward(out / f"{self.graph.name}.onnx", self.graph, self.x, self.shape)
        shape = self.graph.inputs[0].shape
        draw = np.random.default_rng(seed)
        data = {
            "input": draw.standard_normal((samples, *shape)).astype(np.float32),
            "labels": draw.integers(0, self.shape[1], (samples, shape[0])),
        }
        return training_case(path, "cross_entropy", r"(weight|bias)$", data=data, **options).train

    def _around(self, centre: float, spread: float, count: int) -> Array:
        """Different numbers, so that a channel taken for another shows."""
        return (centre + self.generator.uniform(-spread, spread, count)).astype(np.float32)
