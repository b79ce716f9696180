"""Nodes whose operator is a function of ONNX, as the nodes of the function's body."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
from onnx import FunctionProto, NodeProto, TensorProto, TypeProto, helper

from deployer.core.errors import DeployerWarning, UnsupportedOperator
from deployer.core.ir import AttrValue, GraphNames, Node, TensorType
from deployer.core.limits import too_large
from deployer.core.operator import Array, unsupported
from deployer.frontend.graph_sort import live_nodes
from deployer.frontend.model_parts import MOST_NODES, ValueNames, expansion, reads
from deployer.frontend.opsets import Imports, imports_of, is_control, versions_of
from deployer.frontend.raw_graph import RawConstant
from deployer.frontend.reader import constant_node, holds_bools, is_literal, node_of


@dataclass(frozen=True)
class BodyNode:
    """A node of a body with the versions of its schema, or a constant in its place; `bools`: it holds bools."""

    node: Node
    bools: bool
    versions: tuple[int, ...] = ()
    constant: RawConstant | None = None


@dataclass
class Scope:
    """The context from which a body is made: types of values, ONNX's element types of some, constants, and names
    in use. `graphs` has the nodes with graphs inside, as in the file, `notes` what is to be said of nodes by name,
    `own` the names of the file's nodes with graphs inside, and `iterations` is how often such a graph was written out.
    """

    types: Mapping[str, TensorType]
    elements: Mapping[str, int]
    constants: Mapping[str, Array]
    values: ValueNames
    nodes: GraphNames
    graphs: dict[str, tuple[NodeProto, Imports]]
    notes: dict[str, DeployerWarning]
    own: Collection[str]
    iterations: int = 0

    def fresh(self, base: str) -> str:
        """A name of a value that no other has."""
        return self.values.fresh(base)


def body(node: Node, versions: Sequence[int], scope: Scope) -> list[BodyNode]:
    """The parts of the body that the node's outputs need, in an order in which they can be computed.

    Raises UnsupportedOperator where ONNX has no body for such inputs, or several versions with several bodies.
    """
    functions = [_function(node, version, scope) for version in versions]
    if any(function != functions[0] for function in functions):
        listing = " and ".join(map(str, versions))
        raise unsupported(node, f"versions {listing} of the operator have several bodies", "one version of the domain")
    inner = expansion(_call(node, versions[0]), functions[0], scope.values)
    return body_nodes_of(
        node, inner, [name for name in node.outputs if name], imports_of(functions[0].opset_import), scope
    )


def body_nodes_of(
    node: Node, inner: Iterable[NodeProto], results: Collection[str], imports: Imports, scope: Scope
) -> list[BodyNode]:
    """The parts that those of the nodes inside of a node become which the results need."""
    protos: dict[str, NodeProto] = {}
    nodes: list[Node] = []
    for proto in inner:
        name = scope.nodes.fresh(f"{node.name}/{proto.op_type}")
        protos[name] = proto
        nodes.append(Node(name, proto.op_type, reads(proto), tuple(proto.output)))
    if len(scope.nodes.reserved) > MOST_NODES:
        raise too_large(node, "nodes of the graph and of bodies are more", MOST_NODES)
    needed = live_nodes(nodes, results, {}, lambda n: False)
    return [_body_node(protos[one.name], one, imports, scope) for one in needed]


def _body_node(proto: NodeProto, node: Node, imports: Imports, scope: Scope) -> BodyNode:
    if is_literal(proto):
        return BodyNode(node, holds_bools(proto), constant=constant_node(proto, node.name))
    inner = node_of(proto, node.name)
    if is_control(proto):
        scope.graphs[node.name] = proto, imports
    return BodyNode(inner, holds_bools(proto), versions_of(proto, inner, imports))


def without_empty(node: Node, versions: Sequence[int], empty: Collection[str]) -> Node:
    """The node of a body without values that have no elements, among those inputs that may be any number."""
    formal = onnx.defs.get_schema(node.op, versions[0], "").inputs if versions and versions[0] else ()
    if not formal or formal[-1].option != onnx.defs.OpSchema.FormalParameterOption.Variadic:
        return node
    return replace(node, inputs=tuple(name for name in node.inputs if name not in empty))


def _function(node: Node, version: int, scope: Scope) -> FunctionProto:
    """ONNX's newest body of that version of the operator, with the schema's defaults of attributes."""
    schema: Any = onnx.defs.get_schema(node.op, version, "")  # the stub of its type does not know functions
    function = FunctionProto()
    if schema.has_function:
        function.ParseFromString(schema.get_function_with_opset_version(max(schema.function_opset_versions)))
    else:
        newest = max(schema.context_dependent_function_opset_versions)
        types = [_type(name, scope).SerializeToString() for name in node.inputs]
        call = _call(node, version).SerializeToString()
        try:
            text = schema.get_context_dependent_function_with_opset_version(newest, call, types)
        except (RuntimeError, onnx.defs.SchemaError) as error:
            raise _no_body(node, version) from error
        if not text:
            raise _no_body(node, version)
        function.ParseFromString(text)
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    given = {attribute.name for attribute in function.attribute_proto}
    named = [name for name, value in defaults.items() if value.type and name not in given]
    function.attribute_proto.extend(defaults[name] for name in sorted(named))
    kept = [name for name in function.attribute if name not in named]
    function.attribute[:] = sorted({*kept, *(schema.attributes.keys() - set(named) - given)})
    return function


def _no_body(node: Node, version: int) -> UnsupportedOperator:
    why = f"there is no such operator, and version {version} of ONNX's has no body for these inputs and attributes"
    return unsupported(node, why, "the operators that it stands for")


def _type(name: str, scope: Scope) -> TypeProto:
    """The type that ONNX would infer; floats are float32 and integers int64 here."""
    if not name:
        return TypeProto()
    kind = scope.types[name]
    integer = TensorProto.BOOL if scope.elements.get(name) == TensorProto.BOOL else TensorProto.INT64
    return helper.make_tensor_type_proto(TensorProto.FLOAT if kind.dtype == "float32" else integer, kind.shape)


def _call(node: Node, version: int) -> NodeProto:
    """The node as in a file."""
    attributes = onnx.defs.get_schema(node.op, version, "").attributes
    call = helper.make_node(node.op, node.inputs, node.outputs, node.name)
    for name, value in sorted(node.attrs.items()):
        if name in attributes:
            call.attribute.append(_attribute(name, value, str(attributes[name].type).rpartition(".")[2]))
    return call


def _attribute(name: str, value: AttrValue, kind: str) -> onnx.AttributeProto:
    """An attribute of the kind that the schema names."""
    return helper.make_attribute(name, value, attr_type=onnx.AttributeProto.AttributeType.Value(kind))
