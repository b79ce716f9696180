"""Moves: operators that give values another shape or order."""

from onnx import NodeProto

from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.packing import DEQUANTIZE, MOVES, QUANTIZE, Packer, qdq_rule
from deployer.frontend.quantized.results import flattened
from deployer.frontend.quantized.values import QuantizedValue, plain_node


@qdq_rule(*MOVES)
def float_move(packer: Packer, node: NodeProto) -> bool:
    """Move the floats of a value, which stay exact; images that become rows of a product stay integers."""
    x, name, result = packer.value(node.input[0]), node.input[0], node.output[0]
    if flatten(packer, node):
        return True
    if x is None or any(packer.value(other) is not None for other in node.input[1:]):
        return False
    copy, rank = NodeProto(), packer.rank(result, 2 if node.op_type == "Flatten" else 0)
    copy.CopyFrom(node)
    if name in packer.dequantized:
        packer.keep(copy)
        packer.available.add(result)
        packer.dequantized[result] = QuantizedValue(x.quantizer, source=result, exact=True, rank=rank)
        return True
    for other in node.input[1:]:
        packer.materialize(other, node)
    copy.input[0] = packer.float_of(x)
    copy.output[0] = packer.fresh(f"{result}/float")
    packer.nodes.append(copy)
    packer.quantized[result] = QuantizedValue(x.quantizer, source=copy.output[0], exact=True, rank=rank)
    return True


def flatten(packer: Packer, node: NodeProto) -> bool:
    """Flatten images to rows in integers, if a product in integers reads them."""
    x = packer.value(node.input[0])
    if x is None or x.images is not None or not (x.spatial_axes and x.channels):
        return False
    if not (makes_rows(packer, node) and feeds_product(packer, node)):
        return False
    name = node.output[0]
    if node.input[0] not in packer.quantized:  # the format QDQ, with a QuantizeLinear behind it
        reader = packer.readers[name][0]
        if reader.op_type != QUANTIZE or packer.quantizer(reader, 1) != x.quantizer:
            return False
        packer.absorbed.add(id(reader))
        name = reader.output[0]
    flattened(packer, x, name)
    return True


def makes_rows(packer: Packer, node: NodeProto) -> bool:
    """Whether a node makes a row of each image."""
    if node.op_type == "Flatten":
        return plain_node(node).attrs.get("axis", 1) == 1
    shape = packer.initializers.get(node.input[1]) if node.op_type == "Reshape" and len(node.input) > 1 else None
    lengths = [] if shape is None else to_array(shape).reshape(-1).tolist()
    if len(lengths) != 2:
        return False
    batch = packer.declared.get(node.input[0], (None,))[0]
    return lengths[0] in (0, -1) or lengths[0] == batch


def feeds_product(packer: Packer, node: NodeProto) -> bool:
    """Whether only a product with a constant matrix reads a node's result, maybe behind a quantizer."""
    name = node.output[0]
    while len(packer.readers[name]) == 1 and name not in packer.outputs:
        reader = packer.readers[name][0]
        if reader.op_type in ("QGemm", "QLinearMatMul"):
            return True
        if reader.op_type in ("Gemm", "MatMul"):
            return reader.input[0] == name and len(reader.input) > 1 and packer.is_constant_matrix(reader)
        if reader.op_type not in (QUANTIZE, DEQUANTIZE):
            return False
        name = reader.output[0]
    return False
