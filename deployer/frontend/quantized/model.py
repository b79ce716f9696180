"""Quantized model to operators of 8 bits, node by node."""

from functools import cache

from onnx import ModelProto, NodeProto

from deployer.core.packages import walk
from deployer.core.signatures import MICROSOFT
from deployer.frontend.node_checks import refusing_malformed
from deployer.frontend.quantized import rules
from deployer.frontend.quantized.packing import DEQUANTIZE, ONNX_DOMAINS, QDQ_RULES, QOPERATOR_RULES, QUANTIZE, Packer
from deployer.frontend.quantized.values import plain_node, refused

PREFIX = "QLinear"
"""Prefix of most names of QOperator operators."""


def is_quantized(proto: NodeProto) -> bool:
    """Whether a node is one of QDQ's two borders, or an operator of 8 bits."""
    load_rules()
    known = proto.op_type in (QUANTIZE, DEQUANTIZE, *QOPERATOR_RULES) or proto.op_type.startswith(PREFIX)
    return known and proto.domain in (*ONNX_DOMAINS, MICROSOFT)


def pack(model: ModelProto) -> frozenset[str]:
    """Replace the quantized nodes of a model by operators of 8 bits, in place; another model stays as it is.

    Returns the names of the new constants, which are no parameters: values of 8 bits are frozen. Raises
    UnsupportedOperator for a node that cannot be computed, with a form that can.
    """
    if not any(is_quantized(node) for node in model.graph.node):
        return frozenset()
    packer = Packer(model)
    for node in model.graph.node:
        if id(node) not in packer.absorbed:
            with refusing_malformed(plain_node(node)):
                _read(packer, node)
    packer.finish()
    return frozenset(tensor.name for tensor in packer.new_initializers)


@cache
def load_rules() -> None:
    """Register all rules."""
    walk(rules)


def _read(packer: Packer, node: NodeProto) -> None:
    """Compute a node in integers, or keep it."""
    quantized = is_quantized(node)
    if quantized and node.op_type == QUANTIZE:
        packer.quantize(node)
    elif quantized and node.op_type == DEQUANTIZE:
        packer.dequantize(node)
    elif quantized and node.op_type in QOPERATOR_RULES:
        QOPERATOR_RULES[node.op_type](packer, node)
    elif quantized:
        raise refused(node, "there is no such operator of 8 bits", f"one of {', '.join(sorted(QOPERATOR_RULES))}")
    elif not _by_rule(packer, node):
        packer.keep(node)


def _by_rule(packer: Packer, node: NodeProto) -> bool:
    """Whether a rule computes an operator of ONNX in integers."""
    if node.domain not in ONNX_DOMAINS or not packer.has_quantized_input(node):
        return False
    return node.op_type in QDQ_RULES and QDQ_RULES[node.op_type](packer, node)
