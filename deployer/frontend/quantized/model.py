"""A quantized model to operators of 8 bits, node by node."""

from onnx import ModelProto, NodeProto

from deployer.frontend.node_checks import refusing_malformed
from deployer.frontend.quantized.layers import LINEAR, RULES
from deployer.frontend.quantized.packing import DEQUANTIZE, QUANTIZE, Packer
from deployer.frontend.quantized.values import plain_node, refused

PREFIX = "QLinear"
"""How the names of operators over 8 bits begin; some do not."""


def is_quantized(proto: NodeProto) -> bool:
    """Whether a node computes with, makes, or reads numbers of 8 bits by scales."""
    return proto.op_type in (QUANTIZE, DEQUANTIZE, *LINEAR) or proto.op_type.startswith(PREFIX)


def pack(model: ModelProto) -> frozenset[str]:
    """Replace what is quantized in a model by operators of 8 bits, in place; a model without it stays as it is.

    Returns the names of the constants that come of it, which are no parameters: what has 8 bits is frozen. Raises
    UnsupportedOperator for a node that has no form here, with what it should be.
    """
    if not any(is_quantized(node) for node in model.graph.node):
        return frozenset()
    packer = Packer(model)
    for node in model.graph.node:
        if id(node) not in packer.done:
            with refusing_malformed(plain_node(node)):
                _read(packer, node)
    packer.finish()
    return frozenset(tensor.name for tensor in packer.made)


def _read(packer: Packer, node: NodeProto) -> None:
    """Compute a node in integers, or keep it."""
    if node.op_type == QUANTIZE:
        packer.quantize(node)
    elif node.op_type == DEQUANTIZE:
        packer.dequantize(node)
    elif node.op_type in LINEAR:
        LINEAR[node.op_type](packer, node)
    elif is_quantized(node):
        raise refused(node, "there is no such operator of 8 bits", f"one of {', '.join(sorted(LINEAR))}")
    elif not (node.op_type in RULES and packer.of_codes(node) and RULES[node.op_type](packer, node)):
        packer.keep(node)
