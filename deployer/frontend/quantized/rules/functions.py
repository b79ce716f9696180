"""Functions of one number, as tables of all 256."""

from collections.abc import Callable
from typing import cast

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator

from deployer.core.operator import Array
from deployer.frontend.quantized.packing import Packer, QOperatorRule, qdq_rule, qoperator_rule
from deployer.frontend.quantized.results import clipped
from deployer.frontend.quantized.values import NUMBERS, refused

FUNCTIONS = (
    "Relu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Softplus",
    "Gelu",
)
"""Functions of one number, which become tables."""


@qdq_rule(*FUNCTIONS)
def float_function(packer: Packer, node: NodeProto) -> bool:
    """Tabulate a function of one number."""
    x = packer.value(node.input[0])
    if x is None or len(node.output) != 1 or any(name not in packer.initializers for name in node.input[1:] if name):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is None:
        return False
    function = function_of(packer, node)
    packer.quantized[result.name] = packer.lookup(
        x, result.quantizer, lambda floats: clipped(result, function(floats)), result.name
    )
    return True


def function_of(packer: Packer, node: NodeProto) -> Callable[[Array], Array]:
    """A node as a function of an array of floats, by ONNX's own reference."""
    proto = NodeProto()
    proto.CopyFrom(node)
    floats = helper.make_tensor_value_info(node.input[0], 1, [len(NUMBERS)])
    result = helper.make_tensor_value_info(node.output[0], 1, [len(NUMBERS)])
    constants = [packer.initializers[name] for name in dict.fromkeys(node.input[1:]) if name]
    graph = helper.make_graph([proto], "function", [floats], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", packer.opset)])

    def function(values: Array) -> Array:
        try:
            with np.errstate(all="ignore"):
                [found] = cast(list[Array], ReferenceEvaluator(model).run(None, {node.input[0]: values}))
        except (RuntimeError, NotImplementedError) as error:
            raise refused(node, f"ONNX's reference does not compute it ({error})", "attributes of its form") from None
        return np.asarray(found)

    return function


def function_rule(op: str) -> QOperatorRule:
    """Rule of a function of 8 bits: inputs x, its scale and zero, and the result's scale and zero."""

    def rule(packer: Packer, node: NodeProto) -> None:
        inner = helper.make_node(op, [node.input[0]], [node.output[0]], node.name)
        inner.attribute.extend(node.attribute)
        x, quantizer = packer.operand(node, 0), packer.quantizer(node, 3)
        packer.quantized[node.output[0]] = packer.lookup(x, quantizer, function_of(packer, inner), node.output[0])

    return rule


qoperator_rule("QLinearSigmoid")(function_rule("Sigmoid"))
qoperator_rule("QLinearLeakyRelu")(function_rule("LeakyRelu"))
