"""Moves: operators that give values another shape or order."""

import numpy as np
from onnx import NodeProto

from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.packing import Packer, between_borders
from deployer.frontend.quantized.values import (
    ROWS,
    Codes,
    plain_node,
)

MOVES = ("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity")
"""Operators that keep each number."""


@between_borders(*MOVES)
def float_move(packer: Packer, node: NodeProto) -> bool:
    """A move of a value: of floats, which keep their numbers, where no rule has integers."""
    x, name, result = packer.value(node.input[0]), node.input[0], node.output[0]
    if float_flatten(packer, node):
        return True
    if x is None or any(packer.value(other) is not None for other in node.input[1:]):
        return False
    copy = NodeProto()
    copy.CopyFrom(node)
    if name in packer.floats:
        packer.keep(copy)
        packer.there.add(result)
        packer.floats[result] = Codes(x.quantizer, floats=result, exact=True)
        return True
    for other in node.input[1:]:
        packer.materialise(other, node)
    copy.input[0] = x.floats if x.exact else packer.float_of(x)
    copy.output[0] = packer.fresh(f"{result}/float")
    packer.nodes.append(copy)
    packer.codes[result] = Codes(x.quantizer, floats=copy.output[0], exact=True)
    return True


def float_flatten(packer: Packer, node: NodeProto) -> bool:
    """Images as rows, where what reads them is a product in integers."""
    x = packer.value(node.input[0])
    shapes = node.op_type in ("Flatten", "Reshape")
    if x is None or x.origin is not None or not (shapes and x.images and x.channels) or not flattens(packer, node):
        return False
    if node.input[0] in packer.codes:
        name = node.output[0]
    else:
        readers = packer.readers[node.output[0]]
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear" or node.output[0] in packer.outputs:
            return False
        if packer.quantizer(readers[0], 1) != x.quantizer:
            return False
        packer.done.add(id(readers[0]))
        name = readers[0].output[0]
    flatten(packer, x, name)
    return True


def flattens(packer: Packer, node: NodeProto) -> bool:
    """Whether a Flatten or a Reshape makes rows of images, and a product in integers reads them."""
    if node.op_type == "Flatten":
        rows = plain_node(node).attrs.get("axis", 1) == 1
    else:
        shape = packer.initializers.get(node.input[1]) if len(node.input) > 1 else None
        lengths = [] if shape is None else to_array(shape).reshape(-1).tolist()
        rows = len(lengths) == 2 and (lengths[0] in (0, 1, -1)) and (lengths[1] == -1 or lengths[0] in (0, -1))
    reader, name = node, node.output[0]
    while rows and len(packer.readers[name]) == 1 and name not in packer.outputs:
        reader = packer.readers[name][0]
        if reader.op_type in ("QGemm", "QLinearMatMul"):
            return True
        if reader.op_type in ("Gemm", "MatMul"):
            return reader.input[0] == name and len(reader.input) > 1 and packer.is_constant_matrix(reader)
        if reader.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return False
        name = reader.output[0]
    return False


def flatten(packer: Packer, x: Codes, name: str) -> None:
    """Images as rows of a matrix, with the channels innermost where the images have them so."""
    tensor = x.forms[x.images]
    shape = packer.tensor(f"{name}/shape", np.array([0, -1], np.int64))
    rows = packer.emit_float("Reshape", [tensor, shape], packer.fresh(f"{name}/rows"))
    packer.codes[name] = Codes(x.quantizer, {ROWS: rows}, origin=x)
