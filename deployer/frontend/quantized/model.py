"""A quantized model to operators of 8 bits, node by node."""

from functools import cache

from onnx import ModelProto, NodeProto

from deployer.core.packages import walk
from deployer.frontend.node_checks import refusing_malformed
from deployer.frontend.quantized import rules
from deployer.frontend.quantized.packing import BETWEEN, DEQUANTIZE, OVER, QUANTIZE, Packer
from deployer.frontend.quantized.values import plain_node, refused

PREFIX = "QLinear"
"""How the names of operators over 8 bits begin; some do not."""


def is_quantized(proto: NodeProto) -> bool:
    """Whether a node computes with, makes, or reads numbers of 8 bits by scales."""
    load_rules()
    return proto.op_type in (QUANTIZE, DEQUANTIZE, *OVER) or proto.op_type.startswith(PREFIX)


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


@cache
def load_rules() -> None:
    """Register all rules."""
    walk(rules)


def _read(packer: Packer, node: NodeProto) -> None:
    """Compute a node in integers, or keep it."""
    if node.op_type == QUANTIZE:
        packer.quantize(node)
    elif node.op_type == DEQUANTIZE:
        packer.dequantize(node)
    elif node.op_type in OVER:
        OVER[node.op_type](packer, node)
    elif is_quantized(node):
        raise refused(node, "there is no such operator of 8 bits", f"one of {', '.join(sorted(OVER))}")
    elif not (node.op_type in BETWEEN and packer.of_codes(node) and BETWEEN[node.op_type](packer, node)):
        packer.keep(node)
