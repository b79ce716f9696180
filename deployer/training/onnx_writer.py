"""Typed graphs to ONNX files, in the form of ONNX Runtime's training exporter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, file_of, operator_of
from deployer.core.signatures import MICROSOFT, schema_signature
from deployer.frontend.opsets import schema_version
from deployer.frontend.quantized.values import EIGHT_BITS
from deployer.running.output import replace_file

IR_VERSION = 10
_KINDS = {int: AttributeProto.INT, float: AttributeProto.FLOAT, str: AttributeProto.STRING}


@dataclass(frozen=True)
class OnnxGraph:
    """The parts of a file; `infos` are the declared values in between."""

    name: str
    nodes: Sequence[NodeProto]
    inputs: Sequence[ValueInfoProto]
    outputs: Sequence[ValueInfoProto]
    constants: Mapping[str, Array]
    infos: Mapping[str, TensorType]
    opset: int

    def save(self, path: Path) -> Path:
        """Write the file, with its folder; the same parts give the same bytes."""
        graph = helper.make_graph(
            list(self.nodes),
            self.name,
            list(self.inputs),
            list(self.outputs),
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
            value_info=[float_value(name, kind.shape) for name, kind in self.infos.items()],
        )
        opsets = _imports(self.opset, {node.domain for node in self.nodes})
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="deployer")
        return _saved(model, path)


def save_graph(graph: gs.Graph, path: Path) -> Path:
    """Write a graph whose nodes are all ours, with the folder; the same graph gives the same bytes.

    Nodes of a user's file are no such nodes: the library cannot write again what it read of lists without elements.
    """
    graph.import_domains = _imports(graph.opset, {node.domain for node in graph.nodes})
    graph.producer_name, graph.ir_version = "deployer", IR_VERSION
    return _saved(gs.export_onnx(graph), path)


def _imports(opset: int, domains: set[str]) -> list[OperatorSetIdProto]:
    """The opset imports of a file: `opset` of the default domain and version 1 of all others."""
    others = [MICROSOFT, *sorted(domains - {"", "ai.onnx", MICROSOFT})]
    return [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in others)]


def _saved(model: ModelProto, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, model.SerializeToString(deterministic=True))
    return path


def node_proto(node: Node) -> NodeProto:
    """A node with its attributes; operators that ONNX does not have go to the domain they declare."""
    proto = helper.make_node(node.op, node.inputs, node.outputs, node.name)
    proto.domain = file_domain(operator_of(node))
    proto.attribute.extend(_attribute(name, value) for name, value in sorted(node.attrs.items()))
    return proto


def file_domain(operator: Operator) -> str:
    """The domain of an operator in a file: the default one if ONNX has the operator, else the one it declares."""
    return "" if onnx.defs.has(operator.name) else file_of(operator).domain


def input_form(node: Node, opset: int, fresh: Callable[[str], str]) -> tuple[Node, dict[str, Array]]:
    """The node with static attributes as constant inputs where that version of the default domain has inputs for them.

    `fresh` gives names; the constants come with the node.
    """
    if not schema_version(node.op, opset):
        return node, {}
    most = schema_signature(node.op, schema_version(node.op, opset)).inputs[1]
    inputs, attrs, constants = list(node.inputs), dict(node.attrs), {}
    for position, attribute in file_of(operator_of(node)).static_inputs.items():
        if attribute not in attrs or position >= most:
            continue
        number = attrs.pop(attribute)
        name = fresh(f"{node.name}_{attribute}")
        floats = isinstance(number, float) or (isinstance(number, tuple) and any(isinstance(n, float) for n in number))
        constants[name] = np.array(number, np.float32) if floats else np.array(number, np.int64, ndmin=1)
        inputs += [""] * (position + 1 - len(inputs))
        inputs[position] = name
    return replace(node, inputs=tuple(inputs), attrs=attrs), constants


def value(name: str, kind: TensorType, integer: int = TensorProto.INT64) -> ValueInfoProto:
    """A declared tensor; `integer` is ONNX's element type of integers but those of 8 bits."""
    own = {"float32": TensorProto.FLOAT, **{dtype: element for element, dtype in EIGHT_BITS.items()}}
    element = own.get(kind.dtype, integer)
    return helper.make_tensor_value_info(name, element, kind.shape)


def typed(array: Array, integer: int = TensorProto.INT64) -> Array:
    """A constant for a file; `integer` is ONNX's element type of integers, which the array holds in int64."""
    return array if array.dtype.kind == "f" else array.astype(helper.tensor_dtype_to_np_dtype(integer))


def float_value(name: str, shape: tuple[int, ...]) -> ValueInfoProto:
    """A declared float32 tensor."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def flag_value(name: str) -> ValueInfoProto:
    """A declared bool of shape [1]."""
    return helper.make_tensor_value_info(name, TensorProto.BOOL, (1,))


def _attribute(name: str, value: AttrValue) -> AttributeProto:
    if not isinstance(value, tuple):
        return helper.make_attribute(name, value, attr_type=_KINDS[type(value)])
    kinds = {float: AttributeProto.FLOATS, str: AttributeProto.STRINGS}
    kind = next((kinds[type(v)] for v in value if type(v) in kinds), AttributeProto.INTS)
    return helper.make_attribute(name, value, attr_type=kind)
