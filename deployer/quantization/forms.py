"""Nodes of a float model that the reader of quantized models computes in integers, by its own rules."""

from collections.abc import Callable

from onnx import NodeProto

from deployer.frontend.quantized.model import load_rules
from deployer.frontend.quantized.packing import MOVES, ONNX_DOMAINS, QDQ_RULES
from deployer.frontend.quantized.results import windows_fault
from deployer.frontend.quantized.values import plain_node
from deployer.quantization.graph import FloatGraph

LAYERS = ("Conv", "Gemm", "MatMul")
"""Operators whose second input are quantized weights, and their bias behind it."""
FUSED = ("Relu", "Clip")
"""Operators that only narrow the range of the QuantizeLinear behind a layer."""


def obstacle(graph: FloatGraph, node: NodeProto) -> str:
    """The reason why a node stays one of floats; empty where it has an integer form."""
    load_rules()
    if node.domain not in ONNX_DOMAINS or node.op_type not in QDQ_RULES:
        return f"{node.op_type} has no integer form"
    if len([name for name in node.output if name]) != 1:
        return "it has several outputs"
    return _CHECKS.get(node.op_type, _function)(graph, node)


def is_move(node: NodeProto) -> bool:
    """Whether a node keeps each number."""
    return node.op_type in MOVES


def weight_axis(node: NodeProto) -> int:
    """The axis of a layer's output channels in its weights."""
    if node.op_type == "Conv":
        return 0
    return 0 if plain_node(node).attrs.get("transB", 0) else 1


def values_of(graph: FloatGraph, node: NodeProto) -> list[str]:
    """The floats that a node with an integer form computes from."""
    return [name for name in dict.fromkeys(node.input) if graph.is_value(name)]


def _spatial(node: NodeProto, axes: int) -> str:
    return windows_fault(node) if axes in (1, 2) else f"it has {axes} spatial axes"


def _constant(graph: FloatGraph, node: NodeProto, rank: int | None) -> str:
    """The fault of the weights and the bias of a layer; empty where there is none."""
    if not graph.is_value(node.input[0]):
        return "its first operand is no value"
    if node.input[1] not in graph.initializers or any(n and n not in graph.initializers for n in node.input[2:]):
        return "its weights or its bias are computed"
    weights = graph.array(node.input[1])
    if weights.dtype != "float32" or (rank is not None and weights.ndim != rank):
        return f"its weights are {weights.dtype} of {weights.ndim} axes"
    channels = weights.shape[weight_axis(node)]
    shapes = [graph.array(name).shape for name in node.input[2:] if name]
    if any(shape not in ((), (1,), (1, 1), (channels,), (1, channels)) for shape in shapes):
        return "its bias has another number than one for each channel"
    return ""


def _conv(graph: FloatGraph, node: NodeProto) -> str:
    return _constant(graph, node, None) or _spatial(node, graph.array(node.input[1]).ndim - 2)


def _gemm(graph: FloatGraph, node: NodeProto) -> str:
    attrs = plain_node(node).attrs
    if attrs.get("transA", 0) or attrs.get("alpha", 1.0) != 1.0 or attrs.get("beta", 1.0) != 1.0:
        return "it has transA, alpha or beta"
    return _constant(graph, node, 2)


def _matmul(graph: FloatGraph, node: NodeProto) -> str:
    if graph.is_value(node.input[0]) and len(graph.types[node.input[0]].shape) != 2:
        return f"its operand has {len(graph.types[node.input[0]].shape)} axes, and matrices have 2"
    return _constant(graph, node, 2)


def _add(graph: FloatGraph, node: NodeProto) -> str:
    if not all(map(graph.is_value, node.input)) or len({graph.types[name].shape for name in node.input}) != 1:
        return "its operands are no values of one shape"
    return ""


def _mean(graph: FloatGraph, node: NodeProto) -> str:
    return "it is no mean over images"  # such means are pools already


def _concat(graph: FloatGraph, node: NodeProto) -> str:
    return "" if all(map(graph.is_value, node.input)) else "one of its operands is a constant"


def _pool(graph: FloatGraph, node: NodeProto) -> str:
    if not graph.is_value(node.input[0]):
        return "its operand is no value"
    axes = len(graph.types[node.input[0]].shape) - 2
    return _spatial(node, axes) if node.op_type != "GlobalAveragePool" or axes not in (1, 2) else ""


def _function(graph: FloatGraph, node: NodeProto) -> str:
    if not graph.is_value(node.input[0]) or any(n and n not in graph.initializers for n in node.input[1:]):
        return "its operands are no value and constants"
    return ""


_CHECKS: dict[str, Callable[[FloatGraph, NodeProto], str]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Concat": _concat,
    "AveragePool": _pool,
    "GlobalAveragePool": _pool,
    "MaxPool": _pool,
    "ReduceMean": _mean,
}
