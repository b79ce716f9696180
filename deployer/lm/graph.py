"""A graph of ONNX nodes that grows node by node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from deployer.core.operator import Array
from deployer.running.output import replace_file

OPSET, IR_VERSION = 24, 12
"""ONNX's operators and format: the first version with Attention, RMSNormalization and Swish."""


@dataclass
class NodeWriter:
    """Nodes and constants in the order in which they are added; names are those of results."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def emit(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node with one result, and return the name of that; attributes that are None are left out."""
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, [output], f"{output}.{op.lower()}", **given))
        return output

    def constant(self, name: str, array: Array) -> str:
        """Add a constant, once for each name."""
        self.constants.setdefault(name, array)
        return name

    def ints(self, name: str, *values: int) -> str:
        """Add a constant of whole numbers."""
        return self.constant(name, np.array(values, np.int64))

    def number(self, name: str, value: float) -> str:
        """Add a constant of one float."""
        return self.constant(name, np.array(value, np.float32))

    def model(
        self,
        name: str,
        inputs: Sequence[ValueInfoProto],
        outputs: Sequence[ValueInfoProto],
        weights: Mapping[str, Array],
    ) -> ModelProto:
        """The model of all nodes, with weights and constants as initializers."""
        tensors = [numpy_helper.from_array(array, key) for key, array in {**weights, **self.constants}.items()]
        graph = helper.make_graph(self.nodes, name, list(inputs), list(outputs), tensors)
        own = sorted({node.domain for node in self.nodes} - {""})
        opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in own)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="deployer")


def ids_value(name: str, *shape: int | str) -> ValueInfoProto:
    """A declared tensor of ids."""
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def floats_value(name: str, *shape: int | str) -> ValueInfoProto:
    """A declared tensor of float32; an axis may have a name instead of a length."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_bytes(model: ModelProto) -> bytes:
    """The bytes of a model's file; the same model gives the same."""
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def save_model(model: ModelProto, path: Path) -> None:
    """Write a model."""
    replace_file(path, model_bytes(model))
