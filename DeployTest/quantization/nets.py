"""Small float models with drawn weights, their samples, and both ways to run a file."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, helper, numpy_helper

from deployer.core.operator import Array
from deployer.frontend import check, parse
from deployer.verify.reference import run_inference

BATCH, SAMPLES = 4, 24


class Net:
    """A model that is built node by node, from the input `x` of a batch."""

    def __init__(self, shape: Sequence[int], seed: int = 0, batch: int | str = BATCH, opset: int = 17) -> None:
        self.shape, self.batch, self.opset = tuple(shape), batch, opset
        self.draw = np.random.default_rng(seed)
        self.nodes = list[NodeProto]()
        self.arrays: dict[str, Array] = {}

    def weight(self, name: str, *shape: int, gain: float = 1.4) -> str:
        """Draw a parameter; returns its name."""
        wide = self.draw.standard_normal(shape) * gain / math.sqrt(math.prod(shape[1:]))
        self.arrays[name] = wide.astype(np.float32)
        return name

    def constant(self, name: str, values: object, dtype: type = np.float32) -> str:
        """Add a constant; returns its name."""
        self.arrays[name] = np.asarray(values, dtype)
        return name

    def op(self, kind: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """Append a node of the output's name; returns the output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attrs))
        return output

    def conv(self, x: str, name: str, into: int, filters: int, side: int = 3, bias: bool = True, **attrs: Any) -> str:
        """Append a convolution that keeps the size of images, unless `attrs` say another thing."""
        names = [self.weight(f"{name}.weight", filters, into, *[side] * (len(self.shape) - 1))]
        names += [self.weight(f"{name}.bias", filters)] if bias else []
        attrs.setdefault("pads", [side // 2] * 2 * (len(self.shape) - 1))
        return self.op("Conv", [x, *names], f"{name}.out", **attrs)

    def norm(self, x: str, name: str, channels: int, **attrs: Any) -> str:
        """Append a batch norm in inference form."""
        self.arrays[f"{name}.weight"] = self.draw.uniform(0.5, 1.5, channels).astype(np.float32)
        self.arrays[f"{name}.var"] = self.draw.uniform(0.3, 2, channels).astype(np.float32)
        names = [f"{name}.weight", self.weight(f"{name}.bias", channels), self.weight(f"{name}.mean", channels)]
        return self.op("BatchNormalization", [x, *names, f"{name}.var"], f"{name}.out", **attrs)

    def linear(self, x: str, name: str, into: int, out: int) -> str:
        """Append a product with a bias."""
        names = [self.weight(f"{name}.weight", out, into), self.weight(f"{name}.bias", out)]
        return self.op("Gemm", [x, *names], f"{name}.out", transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model with these outputs, whose shapes it does not say."""
        ends = [helper.make_tensor_value_info("x", 1, [self.batch, *self.shape])]
        results = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
        constants = [numpy_helper.from_array(array, name) for name, array in self.arrays.items()]
        graph = helper.make_graph(self.nodes, "net", ends, results, constants)
        bare = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        shaped = onnx.shape_inference.infer_shapes(bare)
        del shaped.graph.value_info[:]
        return shaped

    def save(self, path: Path, *outputs: str) -> Path:
        """Write the model."""
        onnx.save(self.model(*outputs), path)
        return path

    def samples(self, count: int = SAMPLES) -> Array:
        """Inputs that are drawn from the normal distribution."""
        return np.random.default_rng(9).standard_normal((count, *self.shape)).astype(np.float32)


def classifier(batch: int | str = BATCH) -> Net:
    """Two convolutions, of which a batch norm follows the first, pools, and a head."""
    net = Net((2, 8, 8), batch=batch)
    first = net.norm(net.conv("x", "features.0", 2, 6), "features.1", 6)
    net.op("Relu", [first], "a")
    net.op("MaxPool", ["a"], "b", kernel_shape=[2, 2], strides=[2, 2])
    net.op("Relu", [net.conv("b", "features.3", 6, 8)], "c")
    net.op("AveragePool", ["c"], "d", kernel_shape=[2, 2], strides=[2, 2])
    net.op("Flatten", ["d"], "e")
    net.linear("e", "head", 32, 3)
    return net


def by_runtime(path: Path | bytes, x: Array, batch: int = BATCH, as_written: bool = False) -> Array:
    """The first output of a file for all samples by ONNX Runtime, with its rewrites or `as_written`, all in floats.

    Its products of unsigned numbers are exact: without that option they saturate on processors that lack VNNI.
    """
    options = onnxruntime.SessionOptions()
    if as_written:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")
    content = path if isinstance(path, bytes) else str(path)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": x[i : i + batch]})[0] for i in range(0, len(x), batch)])


def by_reference(path: Path, x: Array, batch: int = BATCH, given: str = "x") -> Array:
    """The first output of a file for all samples by the program that is compiled; `given` names the input."""
    program = check.check_program(parse.read_graphs(path, None))
    name = program.outputs[0]
    return np.concatenate([run_inference(program, {given: x[i : i + batch]})[name] for i in range(0, len(x), batch)])


def operators(path: Path) -> list[str]:
    """The operators of the program that is compiled."""
    return [node.op for node in check.check_program(parse.read_graphs(path, None)).nodes]


def written_arrays(path: Path) -> Mapping[str, Array]:
    """The initializers of a file by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
