"""Rewrites before quantization: norms, biases and padding become part of a layer, and means of images global pools."""

from collections.abc import Collection, MutableSet

import numpy as np
from onnx import NodeProto, helper

from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.frontend.quantized.values import plain_node
from deployer.quantization.graph import FloatGraph, label

EPSILON = 1e-5
"""ONNX's default of a batch norm."""


def fold(graph: FloatGraph, part: MutableSet[int]) -> list[tuple[str, str]]:
    """Fold what can be in the nodes of a part, given by identity; returns names of folded nodes and of their layers.

    A layer keeps its place and name, and has the output of the node behind it. Nodes that are added join the part.
    """
    folded = []
    for node in list(graph.nodes):
        if id(node) in part and node.op_type == "ReduceMean":
            _mean(graph, node, part)
        layer = _padded(graph, node, part)
        if layer is not None:
            layer.input[0] = node.input[0]
            graph.nodes.remove(node)
            folded.append((label(node), label(layer)))
    changed = True
    while changed:
        changed = False
        for node in graph.nodes:
            if id(node) not in part:
                continue
            layer = _layer(graph, node, part)
            if layer is not None and (_norm(graph, layer, node) or _sum(graph, layer, node)):
                layer.output[0] = node.output[0]
                graph.nodes.remove(node)
                folded.append((label(node), label(layer)))
                changed = True
                break
    return folded


def _layer(graph: FloatGraph, node: NodeProto, part: Collection[int]) -> NodeProto | None:
    """The Conv, Gemm or MatMul of the part whose output a node alone reads; its weights are a constant."""
    if node.op_type not in ("BatchNormalization", "Add") or len([o for o in node.output if o]) != 1:
        return None
    makers = {n.output[0]: n for n in graph.nodes if id(n) in part and n.op_type in ("Conv", "Gemm", "MatMul")}
    names = [name for name in node.input if name in makers]
    if len(names) != 1 or names[0] in graph.outputs or len(graph.readers()[names[0]]) != 1:
        return None
    layer = makers[names[0]]
    return layer if len(layer.input) > 1 and layer.input[1] in graph.initializers else None


def _numbers(graph: FloatGraph, node: NodeProto, name: str, position: int) -> list[int] | None:
    """Integers that are an attribute of a node, or a constant input; None where there are none."""
    given = plain_node(node).attrs.get(name)
    if isinstance(given, tuple):
        return [int(n) for n in given]
    tensor = node.input[position] if position < len(node.input) else ""
    return graph.array(tensor).reshape(-1).tolist() if tensor in graph.initializers else None


def _padded(graph: FloatGraph, node: NodeProto, part: Collection[int]) -> NodeProto | None:
    """The convolution that alone reads what a Pad surrounds by zeros, with these zeros among its own pads."""
    readers = graph.readers()[node.output[0]] if node.op_type == "Pad" and id(node) in part else []
    attrs, sides = plain_node(node).attrs, _numbers(graph, node, "pads", 1) if readers else None
    if len(readers) != 1 or sides is None or node.output[0] in graph.outputs:
        return None
    (layer,), half, value = readers, len(sides) // 2, attrs.get("value", 0.0)
    filling = node.input[2] if len(node.input) > 2 else ""
    if filling:
        value = graph.array(filling).item() if filling in graph.initializers else "computed"
    of_layer = plain_node(layer).attrs
    usual = attrs.get("mode", "constant") == "constant" and value == 0 and len(node.input) < 4
    images = layer.op_type == "Conv" and layer.input[0] == node.output[0] and node.output[0] not in layer.input[1:]
    explicit = of_layer.get("auto_pad", "NOTSET") in ("NOTSET", "")
    outer = half < 3 or any(sides[:2]) or any(sides[half : half + 2]) or min(sides) < 0
    if not (usual and images and explicit and id(layer) in part) or outer:
        return None
    begin, end = sides[2:half], sides[half + 2 :]
    own = _numbers(graph, layer, "pads", len(layer.input)) or [0] * len(begin + end)
    kept = [attribute for attribute in layer.attribute if attribute.name != "pads"]
    pads = helper.make_attribute("pads", [a + b for a, b in zip(own, begin + end, strict=True)])
    del layer.attribute[:]
    layer.attribute.extend([*kept, pads])
    return layer


def _mean(graph: FloatGraph, node: NodeProto, part: MutableSet[int]) -> None:
    """Make a mean over all spatial axes a GlobalAveragePool, and behind it a Flatten where it drops these axes."""
    shape = graph.types[node.input[0]].shape
    axes = _numbers(graph, node, "axes", 1)
    if axes is None or len(shape) not in (3, 4) or sorted(n % len(shape) for n in axes) != [*range(2, len(shape))]:
        return
    keeps = plain_node(node).attrs.get("keepdims", 1)
    node.op_type, node.input[:] = "GlobalAveragePool", node.input[:1]
    del node.attribute[:]
    if keeps:
        return
    result, images = node.output[0], graph.names.fresh(f"{node.output[0]}/images")
    node.output[0] = images
    rows = helper.make_node("Flatten", [images], [result], f"{label(node)}/Flatten")
    graph.nodes.insert(graph.nodes.index(node) + 1, rows)
    part.add(id(rows))
    graph.types[images] = TensorType("float32", (*shape[:2], *[1] * (len(shape) - 2)))


def _is_plain(layer: NodeProto) -> bool:
    """Whether a layer is a convolution, or a Gemm that multiplies nothing else."""
    attrs = plain_node(layer).attrs
    return layer.op_type == "Conv" or (attrs.get("alpha", 1.0) == 1.0 and attrs.get("beta", 1.0) == 1.0)


def _norm(graph: FloatGraph, layer: NodeProto, node: NodeProto) -> bool:
    """Fold a batch norm in inference form: weights times scale / sqrt(var + epsilon), bias moved, in float64."""
    attrs = plain_node(node).attrs
    if node.op_type != "BatchNormalization" or layer.op_type == "MatMul" or not _is_plain(layer):
        return False
    constants = all(name in graph.initializers for name in (*node.input[1:], *(n for n in layer.input[1:] if n)))
    if attrs.get("training_mode", 0) or not constants:
        return False
    scale, beta, mean, variance = (graph.array(name).astype(np.float64) for name in node.input[1:5])
    epsilon = attrs.get("epsilon", EPSILON)
    assert isinstance(epsilon, int | float)
    factor = scale / np.sqrt(variance + epsilon)
    weights, bias = graph.array(layer.input[1]).astype(np.float64), np.zeros(len(factor))
    if len(layer.input) > 2 and layer.input[2]:
        bias = np.broadcast_to(graph.array(layer.input[2]).astype(np.float64).reshape(-1), bias.shape)
    first = layer.op_type == "Conv" or bool(plain_node(layer).attrs.get("transB", 0))
    along = factor.reshape(-1, *[1] * (weights.ndim - 1)) if first else factor
    _replace(graph, layer, weights * along, (bias - mean) * factor + beta)
    return True


def _sum(graph: FloatGraph, layer: NodeProto, node: NodeProto) -> bool:
    """Make a product of matrices and a sum with a row of constants a Gemm."""
    if node.op_type != "Add" or layer.op_type != "MatMul" or graph.types[layer.output[0]].shape[2:]:
        return False
    other = node.input[0] if node.input[1] == layer.output[0] else node.input[1]
    weights = graph.array(layer.input[1])
    if other not in graph.initializers or weights.ndim != 2 or len(graph.types[layer.input[0]].shape) != 2:
        return False
    row = graph.array(other)
    if row.shape not in ((weights.shape[1],), (1, weights.shape[1])):
        return False
    layer.op_type = "Gemm"
    layer.input.append(graph.add(f"{other}/row", row.reshape(-1)))
    return True


def _replace(graph: FloatGraph, layer: NodeProto, weights: Array, bias: Array) -> None:
    """Give a layer other weights and another bias, under names of their own."""
    base = layer.input[1]
    names = [graph.add(f"{base}/folded", weights.astype(np.float32))]
    names.append(graph.add(f"{base}/folded_bias", bias.astype(np.float32)))
    layer.input[:] = [layer.input[0], *names]


def without_negative_axis(node: NodeProto, rank: int) -> None:
    """Count an axis of a Concat from the front."""
    axis = plain_node(node).attrs.get("axis", 0)
    if node.op_type == "Concat" and isinstance(axis, int) and axis < 0:
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("axis", axis + rank))
