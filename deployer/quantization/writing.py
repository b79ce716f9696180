"""The graph of a quantized model, with ONNX's QuantizeLinear and DequantizeLinear around operators over floats."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TensorShapeProto, helper

from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.frontend.quantized.packing import DEQUANTIZE, QUANTIZE
from deployer.quantization.choice import Choice, layers
from deployer.quantization.forms import weight_axis
from deployer.quantization.graph import FloatGraph
from deployer.quantization.ranges import SMALLEST, Scaling

LARGEST = 127
"""The largest size of a weight: ranges of weights are symmetric."""
MOST_BIAS = 1 << 30
"""The largest size of a bias of 32 bits, so that sums of products beside it fit."""
PAIRS_SINCE, AXES_SINCE = 10, 13
"""The versions of ONNX from which a quantized model has its operators, and scales along an axis."""
NEWEST_IR = 10
"""The newest version of the file format that is written."""


@dataclass(frozen=True)
class Written:
    """A quantized model.

    `dequantized` are the floats that stand for quantized values, `weight_scales` the least and the largest scale of
    each layer's weights by identity. `before` and `after` are the bytes of these layers' parameters, with scales of
    weights.
    """

    model: ModelProto
    dequantized: Mapping[str, str]
    weight_scales: Mapping[int, tuple[float, float]]
    before: int
    after: int


class Writer:
    """The state of one writing: nodes that come out, and bytes of parameters."""

    def __init__(self, graph: FloatGraph, choice: Choice, scalings: Mapping[str, Scaling], per_channel: bool) -> None:
        self.graph, self.choice, self.scalings, self.per_channel = graph, choice, scalings, per_channel
        self.nodes = list[NodeProto]()
        self.node_names = {node.name for node in graph.nodes}
        self.dequantized: dict[str, str] = {}
        """The float that stands for each quantized value."""
        self.weight_scales: dict[int, tuple[float, float]] = {}
        self.before = self.after = 0
        self.layers = {id(node) for node in layers(graph, choice)}

    def pair(self, name: str, source: str, result: str) -> None:
        """Append QuantizeLinear and DequantizeLinear of a value, with the scale that it has."""
        scaling = self.scalings[self.choice.quantized[name]]
        scale = self.graph.add(f"{name}/scale", np.array(scaling.scale, np.float32))
        zero = self.graph.add(f"{name}/zero", np.array(scaling.zero, np.int8))
        codes = self.graph.names.fresh(f"{name}/quantized")
        self._append(QUANTIZE, [source, scale, zero], codes)
        self._append(DEQUANTIZE, [codes, scale, zero], result)
        self.dequantized[name] = result

    def node(self, node: NodeProto) -> None:
        """Append a node of the model, which reads what stands for quantized values, and quantize its result."""
        own = NodeProto()
        own.CopyFrom(node)
        own.input[:] = [self.dequantized.get(name, name) for name in node.input]
        if id(node) in self.layers:
            self._parameters(node, own)
        results = [name for name in node.output if name in self.choice.quantized]
        for name in results:
            ends = name in self.graph.outputs
            source = self.graph.names.fresh(f"{name}/float") if ends else name
            own.output[:] = [source if out == name else out for out in own.output]
        self.nodes.append(own)
        for name, source in zip(node.output, own.output, strict=True):
            if name in results:
                self.pair(name, source, name if source != name else self.graph.names.fresh(f"{name}/dequantized"))

    def _parameters(self, node: NodeProto, own: NodeProto) -> None:
        """Quantize a layer's weights, and its bias by the product of both scales."""
        graph, axis = self.graph, weight_axis(node)
        step = np.float64(self.scalings[self.choice.quantized[node.input[0]]].scale)
        bias = graph.array(node.input[2]).reshape(-1) if len(node.input) > 2 and node.input[2] else None
        channels = graph.array(node.input[1]).shape[axis]
        if bias is not None:
            bias = np.broadcast_to(bias, (channels,)).astype(np.float64)
        floats, scales = self._weights(node.input[1], axis, bias, step)
        own.input[1] = floats
        self.weight_scales[id(node)] = float(scales.min()), float(scales.max())
        if bias is None:
            return
        steps = (np.float32(step) * scales).astype(np.float32)
        numbers = np.rint(bias / steps.astype(np.float64)).astype(np.int32)
        base = node.input[2]
        names = [graph.add(f"{base}/int32", numbers), graph.add(f"{base}/scale", steps)]
        names.append(graph.add(f"{base}/zero", np.zeros(steps.shape, np.int32)))
        own.input[2] = graph.names.fresh(f"{base}/dequantized")
        self._append(DEQUANTIZE, names, own.input[2], **({} if steps.ndim == 0 else {"axis": 0}))
        self.before += bias.size * 4
        self.after += bias.size * 4

    def _weights(self, name: str, axis: int, bias: Array | None, step: float) -> tuple[str, Array]:
        """The floats that stand for quantized weights, and their scales.

        Layers that share weights get a copy each, as the packed program has: their biases may need other scales.
        """
        array = self.graph.array(name).astype(np.float64)
        scales = weight_scales(array, axis, self.per_channel, bias, step)
        shape = [1] * array.ndim
        shape[axis] = scales.size
        wide = scales.astype(np.float64).reshape(shape) if scales.ndim else scales.astype(np.float64)
        numbers = np.clip(np.rint(array / wide), -LARGEST, LARGEST).astype(np.int8)
        names = [self.graph.add(f"{name}/int8", numbers), self.graph.add(f"{name}/scale", scales)]
        names.append(self.graph.add(f"{name}/zero", np.zeros(scales.shape, np.int8)))
        floats = self.graph.names.fresh(f"{name}/dequantized")
        self._append(DEQUANTIZE, names, floats, **({} if scales.ndim == 0 else {"axis": axis}))
        self.before += array.size * 4
        self.after += array.size + scales.size * 4
        return floats, scales

    def _append(self, op: str, inputs: list[str], output: str, **attrs: int) -> None:
        name = f"{output}/{op}"
        while name in self.node_names:
            name = f"{name}_2"
        self.node_names.add(name)
        node = helper.make_node(op, inputs, [output], name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attrs.items())
        self.nodes.append(node)


def weight_scales(array: Array, axis: int, per_channel: bool, bias: Array | None, step: float) -> Array:
    """Scales of weights in float32: [channels], or a scalar.

    The largest size becomes 127. A channel of zeros has the scale of the largest one, and a scale is large enough for
    32 bits to hold the bias in products of it and `step`.
    """
    sizes = np.abs(array).max(axis=tuple(i for i in range(array.ndim) if i != axis), initial=0.0)
    most = float(sizes.max(initial=0.0)) or 1.0
    sizes = np.where(sizes > 0, sizes, most) if per_channel else np.asarray(most)
    needed = np.zeros(sizes.shape) if bias is None else np.abs(bias) / (step * MOST_BIAS)
    needed = needed if per_channel else needed.max(initial=0.0)
    return np.asarray(np.maximum(np.maximum(sizes / LARGEST, needed), SMALLEST), np.float32)


def check_versions(graph: FloatGraph, per_channel: bool) -> None:
    """Raise OptionProblem where the model's version of ONNX lacks what is to be written."""
    least = AXES_SINCE if per_channel else PAIRS_SINCE
    if graph.opset < least:
        facts = [
            ("opset", str(graph.opset)),
            ("needed", f"{least} for scales per {'channel' if per_channel else 'tensor'}"),
        ]
        both = graph.opset >= PAIRS_SINCE
        hint = "--per-tensor, or an export with a newer opset" if both else "an export with a newer opset"
        raise OptionProblem("the model's opset is too old for a quantized model", facts, hint)


def write(graph: FloatGraph, choice: Choice, scalings: Mapping[str, Scaling], per_channel: bool) -> Written:
    """The quantized model; `graph` has its nodes then."""
    writer = Writer(graph, choice, scalings, per_channel)
    for name in graph.inputs:
        if name in choice.quantized:
            writer.pair(name, name, graph.names.fresh(f"{name}/dequantized"))
    for node in graph.nodes:
        writer.node(node)
    graph.nodes = writer.nodes
    model = graph.proto()
    _declare(graph, writer, model)
    model.ir_version = min(model.ir_version, NEWEST_IR)
    return Written(model, writer.dequantized, writer.weight_scales, writer.before, writer.after)


def _declare(graph: FloatGraph, writer: Writer, model: ModelProto) -> None:
    """Declare the shapes of quantized values: by them the reader knows matrices, and sums of one shape.

    Where the file leaves the length of an axis open, only what it says itself is known.
    """
    listed = {value.name: value for value in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    opened = any(_is_open(value.type.tensor_type.shape) for value in model.graph.input)
    for name, result in writer.dequantized.items():
        for each in (name, result):
            if each in listed:
                continue
            if name in listed:
                own = model.graph.value_info.add()
                own.CopyFrom(listed[name])
                own.name = each
            elif not opened:
                shape = list(graph.types[name].shape)
                model.graph.value_info.append(helper.make_tensor_value_info(each, TensorProto.FLOAT, shape))


def _is_open(shape: TensorShapeProto) -> bool:
    return any(not d.HasField("dim_value") for d in shape.dim)
