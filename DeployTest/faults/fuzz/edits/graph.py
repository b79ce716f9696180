"""Edits of a model's nodes, values, declarations, subgraphs and functions."""

import onnx
from onnx import TensorProto, helper

from DeployTest.faults.fuzz.draw import Draw

from .attributes import node_of
from .register import edits_of

ELEMENTS = (*TensorProto.DataType.values(), 99, -1)


def value_names(model: onnx.ModelProto) -> list[str]:
    """All names of values, in file order."""
    graph = model.graph
    names = dict.fromkeys(v.name for v in graph.input)
    names |= dict.fromkeys(t.name for t in graph.initializer)
    names |= dict.fromkeys(o for n in graph.node for o in n.output)
    return [n for n in names if n] or ["x"]


@edits_of("graph")
def input_dropped(model: onnx.ModelProto, draw: Draw) -> None:
    """Remove an operand, or replace its name by the empty one."""
    node = node_of(model, draw)
    if node is None or not node.input:
        return
    at = draw.number(0, len(node.input) - 1)
    if draw.chance(0.5):
        node.input[at] = ""
    else:
        del node.input[at]


@edits_of("graph")
def input_swapped(model: onnx.ModelProto, draw: Draw) -> None:
    """Operands in another order."""
    node = node_of(model, draw)
    if node is not None:
        node.input[:] = draw.some(list(node.input), len(node.input))


@edits_of("graph")
def input_replaced(model: onnx.ModelProto, draw: Draw) -> None:
    """An operand that is another value, perhaps the node's own output or one that nobody makes."""
    node = node_of(model, draw)
    if node is None or not node.input:
        return
    node.input[draw.number(0, len(node.input) - 1)] = draw.one([*value_names(model), *node.output, "nobody"])


@edits_of("graph")
def input_added(model: onnx.ModelProto, draw: Draw) -> None:
    """An operand more."""
    node = node_of(model, draw)
    if node is not None:
        node.input.insert(draw.number(0, len(node.input)), draw.one([*value_names(model), ""]))


@edits_of("graph")
def output_changed(model: onnx.ModelProto, draw: Draw) -> None:
    """A result more, one less, or one under the name of another value."""
    node = node_of(model, draw)
    if node is None:
        return
    match draw.number(0, 2):
        case 0:
            node.output.append(draw.one(["extra", "", *node.output]))
        case 1 if node.output:
            del node.output[-1]
        case _ if node.output:
            node.output[0] = draw.one([*value_names(model), ""])


@edits_of("graph")
def node_moved(model: onnx.ModelProto, draw: Draw) -> None:
    """Nodes removed, repeated, or in another order."""
    nodes = list(model.graph.node)
    if not nodes:
        return
    match draw.number(0, 2):
        case 0:
            nodes.remove(draw.one(nodes))
        case 1:
            nodes.insert(draw.number(0, len(nodes)), draw.one(nodes))
        case _:
            nodes = draw.some(nodes, len(nodes))
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


@edits_of("graph")
def declared_shape(model: onnx.ModelProto, draw: Draw) -> None:
    """A declaration with other extents: another number, none, a symbol, a huge one, another rank, or no shape."""
    values = [v for v in (*model.graph.input, *model.graph.output, *model.graph.value_info)]
    if not values:
        return
    tensor = draw.one(values).type.tensor_type
    shape = tensor.shape
    match draw.number(0, 5):
        case 0 if shape.dim:
            draw.one(shape.dim).dim_value = draw.integer()
        case 1 if shape.dim:
            draw.one(shape.dim).dim_param = draw.one(("N", "batch", draw.name()))
        case 2 if shape.dim:
            del shape.dim[draw.number(0, len(shape.dim) - 1)]
        case 3:
            shape.dim.add().dim_value = draw.integer()
        case 4 if shape.dim:
            draw.one(shape.dim).Clear()
        case _:
            tensor.ClearField("shape")


@edits_of("graph")
def declared_type(model: onnx.ModelProto, draw: Draw) -> None:
    """A declaration with another element type, or of something that is no tensor."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    value = draw.one(values)
    match draw.number(0, 4):
        case 0:
            value.type.Clear()
        case 1:
            value.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
        case _:
            try:
                value.type.tensor_type.elem_type = draw.one(ELEMENTS)
            except ValueError:
                value.type.tensor_type.elem_type = 77


@edits_of("graph")
def declaration_moved(model: onnx.ModelProto, draw: Draw) -> None:
    """A graph input or output more, one less, or one twice."""
    listed = draw.one((model.graph.input, model.graph.output))
    match draw.number(0, 3):
        case 0 if listed:
            del listed[draw.number(0, len(listed) - 1)]
        case 1 if listed:
            listed.append(draw.one(listed))
        case 2:
            listed.append(helper.make_tensor_value_info("unused", draw.one((1, 7)), [draw.integer()]))
        case _:
            listed.append(helper.make_empty_tensor_value_info(draw.one(value_names(model))))


@edits_of("graph")
def subgraph(model: onnx.ModelProto, draw: Draw) -> None:
    """A node moved into the branches of an `If`, or the body of a `Loop`."""
    graph = model.graph
    if not graph.node:
        return
    at = draw.number(0, len(graph.node) - 1)
    inner = onnx.NodeProto.FromString(graph.node[at].SerializeToString())
    outputs = [helper.make_empty_tensor_value_info(o) for o in inner.output if o]
    branch = helper.make_graph([inner], "branch", [], outputs)
    graph.initializer.append(helper.make_tensor("condition", TensorProto.BOOL, (), [draw.chance(0.5)]))
    names = [o.name for o in outputs]
    if draw.chance(0.6):
        outer = helper.make_node("If", ["condition"], names, "if", then_branch=branch, else_branch=branch)
    else:
        outer = helper.make_node("Loop", ["", "condition"], names, "loop", body=branch)
    graph.node[at].CopyFrom(outer)


@edits_of("graph")
def function(model: onnx.ModelProto, draw: Draw) -> None:
    """A node moved into a local function: of its own domain, or under the name of an operator."""
    graph = model.graph
    if not graph.node:
        return
    node = draw.one(graph.node)
    names = {n: f"p{i}" for i, n in enumerate(dict.fromkeys([*node.input, *node.output])) if n}
    inner = onnx.NodeProto.FromString(node.SerializeToString())
    inner.input[:] = [names.get(n, "") for n in node.input]
    inner.output[:] = [names.get(n, "") for n in node.output]
    parameters = [names[n] for n in dict.fromkeys(node.input) if n]
    results = [names[n] for n in dict.fromkeys(node.output) if n]
    if len(set(parameters) | set(results)) != len(parameters) + len(results):
        return
    domain, name = draw.one((("local", "Own"), ("local", node.op_type), (node.domain, node.op_type), ("", "Own")))
    opsets = [helper.make_opsetid("", draw.one((21, 21, 21, 17, 11, 1)))]
    if draw.chance(0.2):
        inner.op_type = draw.one(("Relu", "Identity", "Own", "Exp"))
    model.functions.append(helper.make_function(domain, name, parameters, results, [inner], opsets))
    node.op_type, node.domain = name, domain
    inputs = [n for n in dict.fromkeys(node.input) if n]
    node.input[:] = inputs
    del node.attribute[:]
    if draw.chance(0.7) and domain == "local":
        model.opset_import.append(helper.make_opsetid("local", 1))


@edits_of("graph")
def hostile_name(model: onnx.ModelProto, draw: Draw) -> None:
    """A hostile name for a node, or for a value wherever it stands."""
    new = draw.name()
    node = node_of(model, draw)
    if draw.chance(0.3) and node is not None:
        node.name = new
        return
    rename(model, draw.one(value_names(model)), new)


def rename(model: onnx.ModelProto, old: str, new: str) -> None:
    """Rename a value wherever it stands."""
    graph = model.graph
    for node in graph.node:
        node.input[:] = [new if n == old else n for n in node.input]
        node.output[:] = [new if n == old else n for n in node.output]
    for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.name = new if item.name == old else item.name


@edits_of("graph")
def side_content(model: onnx.ModelProto, draw: Draw) -> None:
    """Parts of a file that a compiler may not ignore, or may: training info, quantization, metadata."""
    match draw.number(0, 3):
        case 0:
            info = model.training_info.add()
            info.algorithm.CopyFrom(model.graph)
        case 1:
            note = model.graph.quantization_annotation.add()
            note.tensor_name = draw.one(value_names(model))
        case 2:
            model.metadata_props.add(key=draw.name(), value=draw.name())
        case _:
            model.graph.metadata_props.add(key="k", value=draw.name())
