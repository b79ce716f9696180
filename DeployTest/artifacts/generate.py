"""ONNX Runtime's own training artifacts with its own results, which test_runtime_artifacts.py trains.

`make runtime-cases` runs this in an environment of its own, since ONNX Runtime's training wheel needs other packages
than the deployer, which is not imported here. Each case is a folder: training_model.onnx, eval_model.onnx,
optimizer_model.onnx and checkpoint as `generate_artifacts` writes them, data.npz, and expected.npz with what its Module
and Optimizer compute from them.
"""

import argparse
import os
import sys
import tomllib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# The package's own __init__ imports torch, which nothing below needs.
_package = types.ModuleType("onnxruntime.training")
_package.__path__ = [os.path.join(os.path.dirname(onnxruntime.__file__), "training")]
sys.modules["onnxruntime.training"] = _package

from onnxruntime.training import artifacts, onnxblock  # noqa: E402
from onnxruntime.training.api import CheckpointState, Module, Optimizer  # noqa: E402

Array = npt.NDArray[np.float32]
BATCH, PASSES, CLASSES = 4, 8, 10
TABLE = tomllib.loads(Path(__file__).with_name("cases.toml").read_text())
OPSET, IR_VERSION = 15, 8
QUIET = 3
"""Severity of ONNX Runtime's messages that are shown."""


@dataclass
class Net:
    """A forward model that grows node by node; `x` is the newest value and `shape` its shape."""

    shape: tuple[int, ...]
    seed: int
    batch_norm: bool = False
    x: str = "x"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    statistics: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the input's shape and begin to draw."""
        self.given = self.shape
        self.draw = np.random.default_rng(self.seed)

    def weight(self, name: str, fan_in: int, *shape: int) -> str:
        """A parameter, uniform within 1 / sqrt(fan_in)."""
        bound = fan_in**-0.5
        self.weights[name] = self.draw.uniform(-bound, bound, shape).astype(np.float32)
        return name

    def node(self, op: str, inputs: Sequence[str], shape: Sequence[int], label: str, **attributes: object) -> None:
        """Append a node, whose result is the newest value."""
        self.nodes.append(helper.make_node(op, [*inputs], [f"{label}.out"], label, **attributes))
        self.x, self.shape = f"{label}.out", tuple(shape)

    def dense(self, label: str, units: int) -> None:
        """A fully connected layer."""
        n, k = self.shape
        inputs = [self.x, self.weight(f"{label}.weight", k, units, k), self.weight(f"{label}.bias", k, units)]
        self.node("Gemm", inputs, (n, units), label, transB=1)

    def relu(self, label: str) -> None:
        """Rectify the newest value."""
        self.node("Relu", [self.x], self.shape, label)

    def conv(self, label: str, channels: int, kernel: int, stride: int = 1, group: int = 1) -> None:
        """A convolution that keeps the image's size but for the stride, with batch norm or else a bias."""
        n, c, h, w = self.shape
        fan_in = c // group * kernel * kernel
        inputs = [self.x, self.weight(f"{label}.weight", fan_in, channels, c // group, kernel, kernel)]
        inputs += [] if self.batch_norm else [self.weight(f"{label}.bias", fan_in, channels)]
        form = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": group}
        self.node("Conv", inputs, (n, channels, -(-h // stride), -(-w // stride)), label, **form)
        if self.batch_norm:
            self.norm(f"{label}.bn", channels)

    def norm(self, label: str, channels: int) -> None:
        """Batch norm by the statistics of the batch; the running ones are kept in the model."""
        self.weights[f"{label}.weight"] = self.draw.uniform(0.5, 1.5, channels).astype(np.float32)
        self.weights[f"{label}.bias"] = self.draw.uniform(-0.1, 0.1, channels).astype(np.float32)
        running = {f"{label}.running_mean": np.zeros(channels), f"{label}.running_var": np.ones(channels)}
        self.statistics |= {name: array.astype(np.float32) for name, array in running.items()}
        inputs = [self.x, f"{label}.weight", f"{label}.bias", *running]
        outputs = [f"{label}.out", f"{label}.mean", f"{label}.var"]
        self.nodes.append(helper.make_node("BatchNormalization", inputs, outputs, label, training_mode=1))
        self.x = f"{label}.out"

    def pool(self) -> None:
        """The mean of each channel."""
        n, c, _, _ = self.shape
        self.node("GlobalAveragePool", [self.x], (n, c, 1, 1), "pool")
        self.node("Flatten", [self.x], (n, c), "flatten")

    def model(self) -> onnx.ModelProto:
        """The forward model."""
        values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.given)]
        results = [helper.make_tensor_value_info(self.x, TensorProto.FLOAT, self.shape)]
        tensors = [numpy_helper.from_array(array, name) for name, array in (self.weights | self.statistics).items()]
        graph = helper.make_graph(self.nodes, "forward", values, results, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def mlp(batch_norm: bool) -> Net:
    """Three dense layers."""
    net = Net((BATCH, 24), 1)
    for i, units in enumerate((32, 16)):
        net.dense(f"fc{i}", units)
        net.relu(f"relu{i}")
    net.dense("fc2", CLASSES)
    return net


def autoencoder(batch_norm: bool) -> Net:
    """Dense layers to a narrow code and back."""
    net = Net((BATCH, 40), 2)
    for i, units in enumerate((24, 8, 24)):
        net.dense(f"fc{i}", units)
        net.relu(f"relu{i}")
    net.dense("fc3", 40)
    return net


def resnet(batch_norm: bool) -> Net:
    """A stem and two residual blocks, the second with a strided shortcut."""
    net = Net((BATCH, 3, 12, 12), 3, batch_norm)
    net.conv("stem", 8, 3)
    net.relu("stem.relu")
    for label, channels, stride in (("block1", 8, 1), ("block2", 16, 2)):
        x, shape = net.x, net.shape
        net.conv(f"{label}.conv1", channels, 3, stride)
        net.relu(f"{label}.relu1")
        net.conv(f"{label}.conv2", channels, 3)
        y, out = net.x, net.shape
        net.x, net.shape = x, shape
        if shape != out:
            net.conv(f"{label}.shortcut", channels, 1, stride)
        net.node("Add", [y, net.x], out, f"{label}.add")
        net.relu(f"{label}.relu2")
    net.pool()
    net.dense("fc", CLASSES)
    return net


def depthwise(batch_norm: bool) -> Net:
    """A stem and two depthwise separable blocks."""
    net = Net((BATCH, 1, 14, 10), 4, batch_norm)
    net.conv("stem", 8, 3, 2)
    net.relu("stem.relu")
    for label, channels in (("block1", 12), ("block2", 16)):
        net.conv(f"{label}.depthwise", net.shape[1], 3, group=net.shape[1])
        net.relu(f"{label}.relu1")
        net.conv(f"{label}.pointwise", channels, 1)
        net.relu(f"{label}.relu2")
    net.pool()
    net.dense("fc", CLASSES)
    return net


def pools(batch_norm: bool) -> Net:
    """Convolutions under both kinds of pooling, and a softmax before the last layer."""
    net = Net((BATCH, 3, 12, 12), 5, batch_norm)
    for i, (op, channels) in enumerate((("MaxPool", 6), ("AveragePool", 8))):
        net.conv(f"conv{i}", channels, 3)
        net.relu(f"relu{i}")
        n, c, h, w = net.shape
        net.node(op, [net.x], (n, c, h // 2, w // 2), f"pool{i}", kernel_shape=[2, 2], strides=[2, 2])
    n, c, h, w = net.shape
    net.node("Flatten", [net.x], (n, c * h * w), "flatten")
    net.dense("fc0", 12)
    net.node("Softmax", [net.x], net.shape, "softmax", axis=-1)
    net.dense("fc1", CLASSES)
    return net


FAMILIES: dict[str, Callable[[bool], Net]] = {
    "mlp": mlp,
    "autoencoder": autoencoder,
    "resnet": resnet,
    "depthwise": depthwise,
    "pools": pools,
}


def write_case(folder: Path, name: str, optimizer: str) -> None:
    """Artifacts, data and results of a net under an optimizer."""
    loss = TABLE["nets"][name]["loss"]
    net = FAMILIES[name.removesuffix("_bn")](TABLE["nets"][name]["batch_norm"])
    draw = np.random.default_rng(100)
    x = draw.standard_normal((PASSES, *net.given)).astype(np.float32)
    target = draw.integers(0, CLASSES, (PASSES, BATCH)) if loss == "CrossEntropyLoss" else x.copy()
    case = Case(net.model(), [*net.weights], [*net.statistics], loss, optimizer, TABLE["rates"][optimizer])
    case.write(folder, x, target)


@dataclass(frozen=True)
class Case:
    """A forward model and how it is trained; gradients are clipped to a norm of `clip` together, unless that is 0."""

    model: onnx.ModelProto
    trained: Sequence[str]
    frozen: Sequence[str]
    loss: str
    optimizer: str
    rate: float
    clip: float = 0.0

    def _update(self) -> object:
        if not self.clip:
            return artifacts.OptimType[self.optimizer]
        return getattr(onnxblock.optim, self.optimizer)(clip_grad=onnxblock.optim.ClipGradNorm(self.clip))

    def write(self, folder: Path, x: npt.NDArray[np.generic], target: npt.NDArray[np.generic]) -> None:
        """Artifacts, and the losses and final parameters of passes over x and the target."""
        folder.mkdir(parents=True, exist_ok=True)
        artifacts.generate_artifacts(
            self.model,
            requires_grad=[*self.trained],
            frozen_params=[*self.frozen],
            loss=artifacts.LossType[self.loss],
            optimizer=self._update(),
            artifact_directory=folder,
        )
        state = CheckpointState.load_checkpoint(folder / "checkpoint")
        module = Module(folder / "training_model.onnx", state)
        update = Optimizer(folder / "optimizer_model.onnx", module)
        update.set_learning_rate(self.rate)
        data = {"x": x, module.input_names()[1]: target}
        losses = []
        for k in range(PASSES):
            if k % TABLE["per_update"] == 0:
                module.lazy_reset_grad()
            losses.append(module(*(array[k] for array in data.values())))
            if (k + 1) % TABLE["per_update"] == 0:
                update.step()
        finals = {name: state.parameters[name].data for name in (*self.trained, *self.frozen)}
        np.savez(folder / "data.npz", **data)
        np.savez(folder / "expected.npz", loss=np.array(losses, np.float32).reshape(-1), **finals)


def main() -> None:
    """Write all cases below the folder that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="folder for the cases, one folder each")
    out = parser.parse_args().out
    onnxruntime.set_default_logger_severity(QUIET)
    for name in TABLE["nets"]:
        for optimizer in TABLE["rates"]:
            write_case(out / f"{name}_{optimizer.lower()}", name, optimizer)


if __name__ == "__main__":
    main()
