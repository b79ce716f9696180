"""Edits of a model's attributes, operators and domains."""

from functools import cache

import onnx
from onnx import AttributeProto, helper

from deployer.core.operator import file_of, registry
from deployer.testing.runtime import OPSET
from DeployTest.faults.fuzz.draw import Draw

from .register import edits_of

STRINGS = ("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "none", "mean", "sum", "constant", "reflect", "edge")
STRINGS += ("wrap", "tanh", "Relu", "linear", "evil", "\n*/")
DOMAINS = ("", "ai.onnx", "com.microsoft", "evil", "ai.onnx.ml", "com.microsoft.nchwc", "ai.onnx.training")


@cache
def attribute_names() -> tuple[str, ...]:
    """Names of all attributes that samples or ONNX's schemas of our operators have, and some that nobody has."""
    names = {"evil", "activation", "gate", "description", "kernel_shape", "stash_type", "is_test", "broadcast", "axis"}
    for name, operator in registry().items():
        names.update(key for sample in operator.samples() for key in sample.attrs)
        if onnx.defs.has(name) and min(file_of(operator).versions) <= OPSET:
            names.update(onnx.defs.get_schema(name, OPSET).attributes)
    return tuple(sorted(names))


def node_of(model: onnx.ModelProto, draw: Draw) -> onnx.NodeProto | None:
    """A random node of the graph, or None in a graph without nodes."""
    return draw.one(model.graph.node) if model.graph.node else None


def attribute_of(model: onnx.ModelProto, draw: Draw) -> AttributeProto | None:
    """A random attribute of a random node, or None without any."""
    nodes = [n for n in model.graph.node if n.attribute]
    return draw.one(draw.one(nodes).attribute) if nodes else None


@edits_of("graph")
def attribute_value(model: onnx.ModelProto, draw: Draw) -> None:
    """Another value of the same kind."""
    attribute = attribute_of(model, draw)
    if attribute is None:
        return
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = draw.integer()
        case AttributeProto.FLOAT:
            attribute.f = draw.floating()
        case AttributeProto.STRING:
            attribute.s = draw.one(STRINGS).encode()
        case AttributeProto.INTS:
            attribute.ints[:] = changed_list(list(attribute.ints), draw)
        case AttributeProto.FLOATS:
            attribute.floats[:] = [*attribute.floats, draw.floating()][draw.number(0, 1) :]
        case AttributeProto.TENSOR:
            attribute.t.CopyFrom(helper.make_tensor("t", onnx.TensorProto.FLOAT, (1,), [draw.floating()]))


def changed_list(numbers: list[int], draw: Draw) -> list[int]:
    """A list of integers with one entry changed, added, removed, repeated or moved."""
    at = draw.number(0, len(numbers) - 1) if numbers else 0
    match draw.number(0, 5):
        case 0 if numbers:
            return [*numbers[:at], draw.integer(), *numbers[at + 1 :]]
        case 1 if numbers:
            return numbers[:at] + numbers[at + 1 :]
        case 2 if numbers:
            return [*numbers, numbers[at]]
        case 3:
            return numbers[::-1]
        case 4:
            return []
    return [*numbers[:at], draw.integer(), *numbers[at:]]


def drawn_attribute(name: str, draw: Draw) -> AttributeProto:
    """An attribute of a drawn kind and value."""
    kinds = [
        lambda: helper.make_attribute(name, draw.integer()),
        lambda: helper.make_attribute(name, draw.floating()),
        lambda: helper.make_attribute(name, draw.one(STRINGS)),
        lambda: helper.make_attribute(name, [draw.integer() for _ in range(draw.number(1, 4))]),
        lambda: helper.make_attribute(name, [draw.floating() for _ in range(draw.number(1, 3))]),
        lambda: helper.make_attribute(name, helper.make_tensor("t", onnx.TensorProto.INT64, (1,), [draw.integer()])),
        lambda: helper.make_attribute(name, helper.make_graph([], "sub", [], [])),
        lambda: AttributeProto(name=name, type=AttributeProto.INT),
        lambda: AttributeProto(name=name),
        lambda: AttributeProto(name=name, ref_attr_name="alpha", type=AttributeProto.FLOAT),
        lambda: AttributeProto(name=name, type=AttributeProto.SPARSE_TENSOR),
    ]
    try:
        return draw.one(kinds)()
    except (ValueError, OverflowError):
        return helper.make_attribute(name, 1)


@edits_of("graph")
def attribute_kind(model: onnx.ModelProto, draw: Draw) -> None:
    """The same name with a value of another kind."""
    attribute = attribute_of(model, draw)
    if attribute is not None:
        attribute.CopyFrom(drawn_attribute(attribute.name, draw))


@edits_of("graph")
def attribute_added(model: onnx.ModelProto, draw: Draw) -> None:
    """One that the operator may or may not know."""
    node = node_of(model, draw)
    if node is None:
        return
    schema = onnx.defs.get_schema(node.op_type, OPSET) if onnx.defs.has(node.op_type, OPSET) else None
    own = sorted(schema.attributes) if schema else []
    name = draw.one(own if own and draw.chance(0.5) else attribute_names())
    node.attribute.append(drawn_attribute(name, draw))


@edits_of("graph")
def attribute_removed(model: onnx.ModelProto, draw: Draw) -> None:
    """One less, or one twice."""
    nodes = [n for n in model.graph.node if n.attribute]
    if not nodes:
        return
    node = draw.one(nodes)
    at = draw.number(0, len(node.attribute) - 1)
    if draw.chance(0.25):
        node.attribute.append(node.attribute[at])
    else:
        del node.attribute[at]


@edits_of("graph")
def operator_changed(model: onnx.ModelProto, draw: Draw) -> None:
    """Another operator on the same operands."""
    node = node_of(model, draw)
    if node is not None:
        node.op_type = draw.one([*registry(), "If", "Loop", "Scan", "evil", "", "Sequence", "Cast", "GatherElements"])


@edits_of("graph")
def node_domain(model: onnx.ModelProto, draw: Draw) -> None:
    """A node from another domain."""
    node = node_of(model, draw)
    if node is not None:
        node.domain = draw.one(DOMAINS)


@edits_of("graph")
def opset_imports(model: onnx.ModelProto, draw: Draw) -> None:
    """Another version, several of a domain, or none."""
    match draw.number(0, 5):
        case 0 | 1 | 2:
            draw.one(model.opset_import or [onnx.OperatorSetIdProto()]).version = draw.number(1, 26)
        case 3:
            model.opset_import.append(helper.make_opsetid(draw.one(DOMAINS), draw.number(1, 26)))
        case 4:
            model.opset_import.append(helper.make_opsetid("", draw.integer()))
        case _:
            del model.opset_import[draw.number(0, 1) :]


@edits_of("graph")
def file_version(model: onnx.ModelProto, draw: Draw) -> None:
    """Another version of the format, or none; text where it changes nothing."""
    match draw.number(0, 2):
        case 0:
            model.ir_version = draw.integer()
        case 1:
            model.ClearField("ir_version")
        case _:
            model.producer_name = model.doc_string = model.graph.doc_string = draw.name()
