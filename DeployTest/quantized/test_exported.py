"""Forms of PyTorch's export of quantized modules (PT2E of torchao): their results, and what is trained of them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import DeployerError, DeployerWarning
from deployer.frontend.check import check_program
from deployer.frontend.parse import read_graphs
from deployer.training.train_graph import CaseReport, build_train_graph
from deployer.verify.reference import run_inference
from DeployTest.quantized import judge
from DeployTest.support.tolerances import assert_close

Q, DQ = "QuantizeLinear", "DequantizeLinear"
BATCH = 2


class Export:
    """A module as PT2E writes it: opset 20, scales and zeros of no axes, float biases, weights along axis 0."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}
        self.rng = np.random.default_rng(3)

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Append a node; returns its result."""
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], f"node_{output}", **attrs))
        return output

    def constant(self, name: str, value: Any) -> str:
        """Add a constant."""
        self.constants[name] = np.asarray(value)
        return name

    def border(self, x: str, scale: float, zero: Any) -> str:
        """Quantize and dequantize."""
        names = self.constant(f"{x}.s", np.float32(scale)), self.constant(f"{x}.z", zero)
        made = self.node(DQ, self.node(Q, x, *names, axis=1), *names, axis=1)
        self.steps[made] = np.float32(scale)
        return made

    def weight(self, name: str, *shape: int) -> str:
        """Weights of 8 bits with a scale for each filter."""
        numbers = self.constant(f"_frozen_{name}", self.rng.integers(-127, 128, shape).astype(np.int8))
        scales = self.constant(f"{name}.s", self.rng.uniform(0.002, 0.01, shape[0]).astype(np.float32))
        return self.node(DQ, numbers, scales, self.constant(f"{name}.z", np.zeros(shape[0], np.int8)), axis=0)

    def conv(self, x: str, name: str, *shape: int, whole: bool = True) -> str:
        """A convolution of images that keep their size; biases of whole steps, to which others are rounded."""
        w = self.weight(name, *shape)
        steps = self.steps[x] * self.constants[f"{name}.s"]
        counts = self.rng.standard_normal(shape[0]) / steps
        bias = self.constant(f"{name}.bias", ((np.rint(counts) if whole else counts) * steps).astype(np.float32))
        return self.node("Conv", x, w, bias, pads=[shape[2] // 2] * 4, kernel_shape=shape[2:])

    def linear(self, x: str, name: str, outputs: int, inputs: int, eight: bool) -> str:
        """A linear layer with weights of 8 bits or of floats."""
        bias = self.constant(f"{name}.bias", self.rng.standard_normal(outputs).astype(np.float32))
        floats = self.rng.standard_normal((outputs, inputs)).astype(np.float32)
        w = self.weight(name, outputs, inputs) if eight else self.constant(f"{name}.weight", floats)
        return self.node("Gemm", x, w, bias, transB=1, alpha=1.0, beta=1.0)

    def save(self, output: str, path: Path) -> Path:
        """Write the model of images [BATCH, 3, 6, 6]."""
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 3, 6, 6])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
        return path


def residual(path: Path, between: bool, eight: bool = False) -> Path:
    """A residual block, a mean, and a head, of 8 bits or of floats.

    Without a quantizer `between` a convolution and the sum, as the quantizer for x86 leaves it out.
    """
    net = Export()
    start = net.border(
        net.node("Relu", net.conv(net.border("x", 0.03, np.uint8(120)), "stem", 4, 3, 3, 3)), 0.02, np.uint8(0)
    )
    layer = net.conv(start, "layer", 4, 4, 3, 3)
    layer = net.border(layer, 0.05, np.uint8(131)) if between else layer
    total = net.border(net.node("Relu", net.node("Add", layer, start)), 0.06, np.uint8(0))
    mean = net.node("ReduceMean", total, net.constant("axes", np.array([-1, -2])), keepdims=1)
    mean = net.border(mean, 0.047, np.uint8(0)) if between else mean  # in the scale of the sum a mean may be a tie
    rows = net.node("Reshape", mean, net.constant("rows", np.array([BATCH, 4])), allowzero=1)
    return net.save(net.linear(net.border(rows, 0.047, np.uint8(0)), "head", 5, 4, eight), path)


def trained(path: Path, trainable: str = "") -> tuple[CaseReport, list[DeployerWarning]]:
    """The training case of a model, and what is said of it."""
    said: list[DeployerWarning] = []
    out = path.parent / "case"
    report = build_train_graph(path, "mse", "sgd", 0.01, trainable, out, samples=1, warn=said.append)
    return report, said


@pytest.mark.parametrize("between", [True, False])
def test_results_and_parameters(between: bool, tmp_path: Path) -> None:
    """A file has ONNX Runtime's results, and its head is what is trained, also where layers stay float."""
    onnxruntime = pytest.importorskip("onnxruntime")
    path = residual(tmp_path / "net.onnx", between)
    program = check_program(read_graphs(path, None))
    assert {"Int8Conv"} | ({"Int8Add", "Int8AveragePool"} if between else {"Conv"}) <= {
        node.op for node in program.nodes
    }
    x = np.random.default_rng(5).standard_normal((BATCH, 3, 6, 6)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [due] = onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})
    assert_close("net", run_inference(program, {"x": x})[program.outputs[0]].astype(np.float32), due)
    report, said = trained(path)
    assert sorted(report.trained.values()) == ["head.bias", "head.weight"]
    assert said == []


@pytest.mark.parametrize("whole", [True, False])
def test_biases_between_steps(whole: bool, tmp_path: Path) -> None:
    """Results differ from those of float biases only where rounding a bias to whole steps leads across a tie."""
    onnxruntime = pytest.importorskip("onnxruntime")
    net, scale = Export(), np.float32(0.05)
    source = net.border("x", 0.03, np.uint8(120))
    layer = net.conv(source, "layer", 64, 3, 3, 3, whole=whole)
    path = net.save(net.border(layer, scale, np.uint8(131)), tmp_path / "net.onnx")
    program = check_program(read_graphs(path, None))
    x = np.random.default_rng(5).standard_normal((BATCH, 3, 6, 6)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [due] = onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})
    found = run_inference(program, {"x": x})[program.outputs[0]].astype(np.float32)
    turned = np.rint(np.abs(found - due) / scale).astype(int)
    assert turned.max() == (0 if whole else 1)
    numbers = judge.saturated(x / net.steps[source], np.uint8(120))
    taken, _ = judge.windows(numbers, [3, 3], {"pads": [1] * 4}, 120)
    sums = np.einsum("nchwij,mcij->nmhw", taken - 120, net.constants["_frozen_layer"].astype(np.int64))
    steps = (net.steps[source] * net.constants["layer.s"]).astype(np.float64).reshape(-1, 1, 1)
    bias = net.constants["layer.bias"].astype(np.float64).reshape(-1, 1, 1)
    exact = (sums * steps + bias) / scale
    moved = np.abs(bias / steps - np.rint(bias / steps)) * steps / scale
    assert (np.abs(exact - np.floor(exact) - 0.5) <= moved)[turned > 0].all()


def test_a_head_of_8_bits(tmp_path: Path) -> None:
    """Weights of 8 bits are not trained: an error says so, and biases are trained where they are asked for."""
    path = residual(tmp_path / "net.onnx", True, eight=True)
    with pytest.raises(DeployerError, match="quantize the model without the layers that are to be trained"):
        trained(path)
    report, _ = trained(path, "head")
    assert list(report.trained.values()) == ["head.bias"]
