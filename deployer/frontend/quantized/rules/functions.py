"""Functions of one number, as tables of all 256."""

from collections.abc import Callable

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator

from deployer.core.operator import Array
from deployer.frontend.quantized.packing import Packer, between_borders, over_eights
from deployer.frontend.quantized.results import (
    operand,
)
from deployer.frontend.quantized.values import (
    EVERY,
    refused,
)

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
"""Functions of one number that become a table between two borders."""


@between_borders(*FUNCTIONS)
def float_function(packer: Packer, node: NodeProto) -> bool:
    """A function of one number, in front of a QuantizeLinear: its table."""
    x = packer.value(node.input[0])
    if x is None or len(node.output) != 1 or any(name not in packer.initializers for name in node.input[1:] if name):
        return False
    result = packer.tail(node.output[0])
    if result is None:
        return False
    function = tabled(packer, node)
    quantizer, low, high, name = result
    least, most = ((n - quantizer.zero) * np.float64(quantizer.scale) for n in (low, high))
    packer.codes[name] = packer.lookup(x, quantizer, lambda floats: np.clip(function(floats), least, most), name)
    return True


def tabled(packer: Packer, node: NodeProto) -> Callable[[Array], Array]:
    """A node as a function of an array of floats, by ONNX's own reference."""
    proto = NodeProto()
    proto.CopyFrom(node)
    floats = helper.make_tensor_value_info(node.input[0], 1, [len(EVERY)])
    result = helper.make_tensor_value_info(node.output[0], 1, [len(EVERY)])
    constants = [packer.initializers[name] for name in dict.fromkeys(node.input[1:]) if name]
    graph = helper.make_graph([proto], "function", [floats], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", packer.opset)])
    evaluator = ReferenceEvaluator(model)

    def function(values: Array) -> Array:
        try:
            with np.errstate(all="ignore"):
                results: list[Array] = list(evaluator.run(None, {node.input[0]: values}))  # type: ignore[arg-type]
        except RuntimeError as error:
            raise refused(node, f"ONNX's reference does not compute it ({error})", "attributes of its form") from None
        return np.asarray(results[0])

    return function


def linear_rule(op: str) -> Callable[[Packer, NodeProto], None]:
    """QLinearSigmoid and QLinearLeakyRelu: x and y, each with its scale and zero."""

    def rule(packer: Packer, node: NodeProto) -> None:
        inner = helper.make_node(op, [node.input[0]], [node.output[0]], node.name)
        inner.attribute.extend(node.attribute)
        x, quantizer = operand(packer, node, 0), packer.quantizer(node, 3)
        packer.codes[node.output[0]] = packer.lookup(x, quantizer, tabled(packer, inner), node.output[0])

    return rule


over_eights("QLinearSigmoid")(linear_rule("Sigmoid"))
over_eights("QLinearLeakyRelu")(linear_rule("LeakyRelu"))
