"""Small float models with the forms of layers that people quantize, and their quantized files by ONNX Runtime."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
CALIBRATION, SEED = 12, 20


@dataclass
class Net:
    """A model under construction; each layer takes the last value unless it is given others."""

    shape: tuple[int, ...]
    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    last: str = "x"

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Append a layer; returns its result."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs) or [self.last], [name], name, **attrs))
        self.last = name
        return name

    def constant(self, array: Array) -> str:
        """Add an initializer."""
        name = f"p{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def weights(self, *shape: int) -> str:
        """Add weights by He's rule, of channels of very different sizes."""
        sizes = self.rng.uniform(0.3, 2.0, (shape[0], *[1] * (len(shape) - 1)))
        drawn = self.rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])) * sizes
        return self.constant(drawn.astype(np.float32))

    def bias(self, count: int) -> str:
        """Add a bias."""
        return self.constant((self.rng.standard_normal(count) * 0.2).astype(np.float32))

    def conv(self, *shape: int, source: str = "", **attrs: Any) -> str:
        """Append a convolution with a bias."""
        return self.add("Conv", source or self.last, self.weights(*shape), self.bias(shape[0]), **attrs)

    def gemm(self, outputs: int, inputs: int) -> str:
        """Append a product with a matrix, and a bias."""
        return self.add("Gemm", self.last, self.weights(outputs, inputs), self.bias(outputs), transB=1)

    def save(self, path: Path) -> Path:
        """Write the model."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def residual(net: Net) -> None:
    """A block as in ResNet, and a mean over the images."""
    net.conv(8, 3, 3, 3, pads=[1, 1, 1, 1])
    start = net.add("Relu")
    net.conv(8, 8, 3, 3, pads=[1, 1, 1, 1])
    net.add("Relu")
    net.conv(8, 8, 3, 3, pads=[1, 1, 1, 1])
    net.add("Add", net.last, start)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("GlobalAveragePool")
    net.add("Flatten")
    net.gemm(5, 8)


def depthwise(net: Net) -> None:
    """A block as in MobileNetV2: wide and pointwise, depthwise with a stride, narrow; clipped."""
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))
    net.conv(12, 3, 1, 1)
    net.add("Clip", net.last, low, high)
    net.conv(12, 1, 3, 3, group=12, strides=[2, 2], pads=[1, 1, 1, 1])
    net.add("Clip", net.last, low, high)
    net.conv(6, 12, 1, 1)
    net.add("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    net.add("Flatten")
    net.gemm(4, 6 * 3 * 4)


def branches(net: Net) -> None:
    """Branches joined by their channels, groups, dilation, uneven padding, and functions of one number."""
    left = net.conv(6, 3, 3, 2, pads=[1, 0, 1, 1], source="x")
    left = net.add("HardSwish", left)
    right = net.conv(4, 3, 3, 3, pads=[2, 2, 2, 2], dilations=[2, 2], source="x")
    right = net.add("LeakyRelu", right, alpha=0.1)
    net.add("Concat", left, right, axis=1)
    net.conv(10, 5, 3, 3, group=2, strides=[2, 1])
    net.add("Sigmoid")
    net.add("GlobalAveragePool")
    net.add("Reshape", net.last, net.constant(np.array([1, 10], np.int64)))
    net.gemm(3, 10)


def signal(net: Net) -> None:
    """Convolutions over time, as for a sensor."""
    net.conv(8, 2, 5, strides=[2], pads=[2, 1])
    net.add("Relu")
    net.conv(8, 1, 3, group=8, pads=[1, 1])
    net.conv(6, 8, 1)
    net.add("Relu")
    net.add("MaxPool", kernel_shape=[2], strides=[2])
    net.add("Flatten")
    net.gemm(4, 6 * 5)


def perceptron(net: Net) -> None:
    """Matrices alone, and a tangent."""
    net.gemm(16, 24)
    net.add("Relu")
    net.gemm(11, 16)
    net.add("Tanh")
    net.add("MatMul", net.last, net.weights(11, 7))


MODELS: dict[str, tuple[Callable[[Net], None], tuple[int, ...]]] = {
    "residual": (residual, (1, 3, 8, 10)),
    "depthwise": (depthwise, (1, 3, 6, 7)),
    "branches": (branches, (1, 3, 7, 9)),
    "signal": (signal, (1, 2, 20)),
    "perceptron": (perceptron, (1, 24)),
}
TYPES = (("QUInt8", "QInt8", True), ("QInt8", "QInt8", False), ("QUInt8", "QUInt8", False), ("QInt8", "QInt8", True))
"""Types of activations and weights, and whether weights have a scale for each channel."""
FORMATS = ("QDQ", "QOperator")


def float_model(name: str, path: Path) -> Path:
    """Write a model of that name."""
    build, shape = MODELS[name]
    net = Net(shape, np.random.default_rng(SEED))
    build(net)
    return net.save(path)


def samples(name: str, count: int, seed: int) -> Iterator[Array]:
    """Inputs of a model."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.standard_normal(MODELS[name][1]).astype(np.float32)


def written(
    source: Path, shape: tuple[int, ...], form: str, kinds: tuple[str, str, bool], path: Path, keep: Sequence[str] = ()
) -> Path:
    """A model of that input as ONNX Runtime quantizes it; layers of the names in `keep` stay float."""
    from onnxruntime import quantization

    activations, weights, per_channel = kinds
    rng = np.random.default_rng(SEED + 1)
    drawn = [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(CALIBRATION)]
    quantization.quantize_static(
        source,
        path,
        calibration_reader(drawn),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType[weights],
        per_channel=per_channel,
        nodes_to_exclude=list(keep),
    )
    return path


def calibration_reader(batches: Sequence[Mapping[str, Array]]) -> Any:
    """Inputs in the form in which ONNX Runtime's quantizer asks for them: one after the other, then None."""
    from onnxruntime import quantization

    left = iter(batches)
    methods = {"get_next": lambda self: next(left, None)}
    return type("CalibrationReader", (quantization.CalibrationDataReader,), methods)()


def quantized_model(
    name: str, form: str, kinds: tuple[str, str, bool], folder: Path, keep: tuple[str, ...] = ()
) -> Path:
    """A model of that name as ONNX Runtime quantizes it; layers of the names in `keep` stay float."""
    source = float_model(name, folder / f"{name}.onnx")
    path = folder / f"{name}_{form}_{'_'.join(map(str, kinds))}_{len(keep)}.onnx"
    return written(source, MODELS[name][1], form, kinds, path, keep)
