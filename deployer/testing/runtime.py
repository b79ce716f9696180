"""Run a node in ONNX Runtime, whose results are the reference of ONNX's own operators."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deployer.core.errors import DeployerError
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, file_of
from deployer.core.signatures import MICROSOFT
from deployer.frontend.node_checks import MISFITS
from deployer.operators.base.elementwise_dsl import ElementwiseFormula
from deployer.testing.bench import BenchStep

OPSET = 21
"""The version of a model, unless the operator is of a later one."""


def runtime_module() -> Any:
    """ONNX Runtime, or None where it is not installed."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        return None


def run_by_onnx(step: BenchStep) -> list[Array]:
    """Outputs of a one-node model in ONNX Runtime; attributes that this opset wants as inputs become constants."""
    attrs = dict(step.node.attrs)
    names, constants = list(step.node.inputs), []
    for position, attribute in file_of(step.operator).static_inputs.items():
        if attribute in attrs:
            names += [""] * (position + 1 - len(names))
            names[position] = attribute
            del attrs[attribute]
            types = [step.types[n] if n else None for n in step.node.inputs]
            constants.append(numpy_helper.from_array(as_input(step.operator, step.node, types, attribute), attribute))
    version = version_of(step.operator)
    given = [(i, n) for i, n in enumerate(step.node.inputs) if n]
    values = {n: as_in_file(step.operator, version, i, step.values[n]) for i, n in given}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in values.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in step.node.outputs]
    domain = "" if version else file_of(step.operator).domain
    node = helper.make_node(step.node.op, names, list(step.node.outputs), domain=domain)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attrs.items())
    graph = helper.make_graph([node], "one", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset_of(step.operator)), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    text = onnx.shape_inference.infer_shapes(model).SerializeToString()
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(text, options)
    return [
        x.astype(np.int32) if x.dtype in (np.int64, bool) else x for x in map(np.asarray, session.run(None, values))
    ]


def opset_of(operator: Operator) -> int:
    """The opset of a model with the operator: OPSET, or the first that has it in a version known here."""
    return max(OPSET, min(file_of(operator).versions, default=OPSET))


def version_of(operator: Operator) -> int:
    """ONNX's version of the operator in that opset; 0 where ONNX has none."""
    known = onnx.defs.has(operator.name)
    return int(onnx.defs.get_schema(operator.name, opset_of(operator)).since_version) if known else 0


def truths(operator: Operator) -> set[int]:
    """The positions of inputs that are of bool in ONNX."""
    declared = operator.operands if isinstance(operator, ElementwiseFormula) else ()
    return {position for position, operand in enumerate(declared) if operand.kind == "bool"}


def as_in_file(operator: Operator, version: int, position: int, x: Array) -> Array:
    """A sample's operand in an element type that ONNX's schema of that version allows there (0: a form of its own).

    Integers are int64 where they may, else int32 or uint8, and numbers that may not be floats are cut to integers.
    """
    if position in truths(operator):
        return x.astype(bool)
    formal = onnx.defs.get_schema(operator.name, version, "").inputs if version else ()
    types = formal[min(position, len(formal) - 1)].types if formal else set()
    if x.dtype.kind == "f" and (not types or "tensor(float)" in types):
        return x
    return x.astype(next((kind for kind in ("int64", "int32", "uint8") if f"tensor({kind})" in types), "int64"))


def as_input(operator: Operator, node: Node, types: Sequence[TensorType | None], attribute: str) -> Array:
    """An attribute that ONNX has as an input: an integer is a list of one, but where it has to be alone."""
    setting = node.attrs[attribute]
    if isinstance(setting, int) and _takes(operator, replace(node, attrs={**node.attrs, attribute: (setting,)}), types):
        setting = (setting,)
    array = np.asarray(setting)
    return array.astype(np.float32 if array.dtype.kind == "f" and array.size else np.int64)


def _takes(operator: Operator, node: Node, types: Sequence[TensorType | None]) -> bool:
    """Whether the operator accepts the node."""
    try:
        operator.infer(node, types)
    except (DeployerError, *MISFITS):
        return False
    return True


def gives_truths(operator: Operator) -> bool:
    """Whether the result is of bool in ONNX."""
    return isinstance(operator, ElementwiseFormula) and operator.formula.kind == "bool"
