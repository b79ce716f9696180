"""The layers of a model that are computed in integers, and the values that are quantized, each with its scale."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import NodeProto

from deployer.frontend.quantized.packing import limits_of
from deployer.quantization.forms import FUSED, LAYERS, is_move, obstacle, values_of
from deployer.quantization.graph import FloatGraph, label


@dataclass(frozen=True)
class Choice:
    """`integers` are the nodes that have an integer form, by identity, each with the value that it becomes.

    That is the output of a Relu or Clip behind it, where nothing else reads what is between. `quantized` are the
    values of 8 bits, in order, each with the one whose scale it has, which may be its own. `float_nodes` are nodes of
    the part that stay float, each with the reason.
    """

    integers: Mapping[int, str]
    quantized: Mapping[str, str]
    float_nodes: Mapping[str, str] = field(default_factory=dict)


def chosen(graph: FloatGraph, part: Sequence[NodeProto]) -> Choice:
    """Choose what of a part of a model has 8 bits; `graph` knows the types of its values."""
    inner, reasons = {id(node) for node in part}, {id(node): obstacle(graph, node) for node in part}
    readers = graph.readers()
    integers, kept, absorbed = dict[int, str](), dict[str, str](), set[int]()
    needed = set[str]()
    for node in part:
        if id(node) in absorbed or is_move(node):
            continue
        if reasons[id(node)]:
            kept[label(node)] = reasons[id(node)]
            continue
        name = node.output[0]
        while name not in graph.outputs and len(readers[name]) == 1 and id(readers[name][0]) in inner:
            (behind,) = readers[name]
            if behind.op_type not in FUSED or limits_of(behind, graph.number) is None:
                break
            absorbed.add(id(behind))
            name = behind.output[0]
        integers[id(node)] = name
        needed |= {*values_of(graph, node), name}
    return Choice(integers, _quantized(graph, part, needed, integers), kept)


def _quantized(
    graph: FloatGraph, part: Sequence[NodeProto], needed: Collection[str], integers: Mapping[int, str]
) -> dict[str, str]:
    """The values that are quantized; what moves numbers, or takes the largest of them, keeps their scale."""
    found = {name: name for name in graph.inputs if name in needed}
    for node in part:
        source = found.get(node.input[0]) if node.input else None
        for name in node.output:
            keeps = is_move(node) and graph.is_value(name)
            largest = node.op_type == "MaxPool" and integers.get(id(node)) == name
            if source is not None and (keeps or largest):
                found[name] = source
            elif name in needed:
                found[name] = name
    return found


def layers(graph: FloatGraph, choice: Choice) -> list[NodeProto]:
    """The nodes with weights of 8 bits."""
    return [node for node in graph.nodes if id(node) in choice.integers and node.op_type in LAYERS]
