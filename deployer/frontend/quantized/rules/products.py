"""Convolutions, and products with matrices."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from deployer.core.operator import Array
from deployer.frontend.prepare import to_array
from deployer.frontend.quantized.packing import Attributes, Packer, Result, qdq_rule, qoperator_rule
from deployer.frontend.quantized.results import (
    full_range,
    record,
    result_attributes,
    window_attributes,
    windows_fault,
)
from deployer.frontend.quantized.values import (
    OFFSET,
    PLAIN,
    ROWS,
    QuantizedConstant,
    QuantizedValue,
    plain_node,
    refused,
)


def weight(packer: Packer, node: NodeProto, position: int) -> QuantizedConstant | None:
    """The quantized constant at a position of a node's inputs."""
    return packer.constants.get(node.input[position]) if position < len(node.input) else None


def transposed(w: QuantizedConstant) -> QuantizedConstant:
    """The transpose of a matrix."""
    return QuantizedConstant(w.numbers.T, w.scales, w.zeros, 1 - w.axis)


def is_matrix(packer: Packer, name: str, x: QuantizedValue) -> bool:
    """Whether a value is known to have two axes."""
    return x.images is not None or packer.rank_of(name, x) == 2


@qdq_rule("Conv")
def float_conv(packer: Packer, node: NodeProto) -> bool:
    """Compute a convolution by quantized filters in integers."""
    x, w = packer.value(node.input[0]), weight(packer, node, 1)
    if x is None or w is None or w.numbers.ndim not in (3, 4) or windows_fault(node):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None:
        convolve(packer, node, x, w, 2, result)
    return result is not None


@qoperator_rule("QLinearConv")
def linear_conv(packer: Packer, node: NodeProto) -> None:
    """QLinearConv: x, its scale and zero, w with its own, y's, and a bias."""
    w = packer.constant(node, 3, 0)
    convolve(packer, node, packer.operand(node, 0), w, 8, full_range(packer.quantizer(node, 6), node.output[0]))


@qdq_rule("Gemm")
def float_gemm(packer: Packer, node: NodeProto) -> bool:
    """Compute a product with a quantized matrix in integers."""
    x, w, attrs = packer.value(node.input[0]), weight(packer, node, 1), plain_node(node).attrs
    usual = not attrs.get("transA", 0) and attrs.get("alpha", 1.0) == 1.0 and attrs.get("beta", 1.0) == 1.0
    if x is None or w is None or w.numbers.ndim != 2 or not usual:
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None:
        multiply(packer, node, x, transposed(w) if attrs.get("transB", 0) else w, 2, result)
    return result is not None


@qoperator_rule("QGemm")
def linear_gemm(packer: Packer, node: NodeProto) -> None:
    """QGemm: a, its scale and zero, b with its own, a bias of 32 bits, and y's scale and zero."""
    attrs = plain_node(node).attrs
    if attrs.get("transA", 0) or attrs.get("alpha", 1.0) != 1.0:
        raise refused(node, f"transA is {attrs.get('transA', 0)}, alpha {attrs.get('alpha', 1.0)}", "0 and 1")
    w = transposed(packer.constant(node, 3, 0)) if attrs.get("transB", 0) else packer.constant(node, 3, 1)
    x = packer.operand(node, 0)
    if len(node.input) > 7 and node.input[7]:
        multiply(packer, node, x, w, 6, full_range(packer.quantizer(node, 7), node.output[0]))
        return
    steps = (x.quantizer.scale * np.broadcast_to(w.scales, w.numbers.shape[1:])).astype(np.float32)
    name = packer.add_constant(f"{node.name}/matrix", w.floats)
    bias = bias_of(packer, node, 6, steps, w.numbers.shape[1]).astype(np.float32) * steps
    floats = packer.float_of(x)
    packer.emit_float("Gemm", [floats, name, packer.add_constant(f"{node.name}/bias", bias)], node.output[0])
    packer.available.add(node.output[0])


@qdq_rule("MatMul")
def float_matmul(packer: Packer, node: NodeProto) -> bool:
    """Compute a product in integers: of a matrix with a constant one, or of two values, in batches."""
    x, w = packer.value(node.input[0]), weight(packer, node, 1)
    other = packer.value(node.input[1]) if w is None else w
    if x is None or other is None:
        return False
    matrix = w is not None and w.numbers.ndim == 2 and is_matrix(packer, node.input[0], x)
    if not matrix and not has_batches(packer, node, x, other):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None and w is not None and matrix:
        multiply(packer, node, x, w, -1, result)
    elif result is not None:
        multiply_batches(packer, node, node.input[:2], x, other, result)
    return result is not None


@qoperator_rule("QLinearMatMul")
def linear_matmul(packer: Packer, node: NodeProto) -> None:
    """QLinearMatMul of a matrix with a constant one, or of two values, in batches."""
    x, result = packer.operand(node, 0), full_range(packer.quantizer(node, 6), node.output[0])
    if node.input[3] not in packer.initializers:
        multiply_batches(packer, node, (node.input[0], node.input[3]), x, packer.operand(node, 3), result)
        return
    w = packer.constant(node, 3, 1)
    if w.numbers.ndim == 2 and is_matrix(packer, node.input[0], x):
        multiply(packer, node, x, w, -1, result)
    else:
        multiply_batches(packer, node, (node.input[0], node.input[3]), x, w, result)


def has_batches(packer: Packer, node: NodeProto, a: QuantizedValue, b: QuantizedValue | QuantizedConstant) -> bool:
    """Whether Int8MatMul takes two operands: each has two axes or more, and no leading axes that are known differ."""
    if isinstance(b, QuantizedConstant):
        return not batch_fault(b) and packer.rank_of(node.input[0], a) > 1
    ranks = [packer.rank_of(name, x) for name, x in zip(node.input, (a, b), strict=True)]
    leading = [packer.declared.get(name, ())[:-2] for name in node.input]
    return min(ranks) > 1 and (not all(leading) or leading[0] == leading[1])


def batch_fault(b: QuantizedConstant) -> str:
    """The reason why batches have no product with a constant in integers; empty if they have one."""
    if b.numbers.ndim < 2:
        return "its constant is no matrix"
    if b.scales.size > 1 and b.axis != b.numbers.ndim - 1:
        return f"its constant has scales along axis {b.axis}"
    return "its constant has several zeros" if len(set(b.zeros.tolist())) > 1 else ""


def multiply_batches(
    packer: Packer,
    node: NodeProto,
    read: Sequence[str],
    a: QuantizedValue,
    b: QuantizedValue | QuantizedConstant,
    result: Result,
) -> None:
    """Emit a product of matrices in batches, which are read by these names; a constant has one zero."""
    if isinstance(b, QuantizedConstant):
        if batch_fault(b):
            raise refused(node, batch_fault(b), "a matrix with one zero, and one scale or one for each column")
        scales, zero, rank = b.scales, int(b.zeros[0]), b.numbers.ndim
        other = packer.add_constant(f"{node.name or node.output[0]}/matrix", b.numbers.astype(np.int8))
    else:
        scales, zero, rank = np.asarray([b.quantizer.scale], np.float32), b.quantizer.zero, packer.rank_of(read[1], b)
        other = packer.tensor_of(b, PLAIN)
    steps = (a.quantizer.scale * scales).astype(np.float32)
    ratios = (steps / result.quantizer.scale).astype(np.float32)
    names = [packer.tensor_of(a, PLAIN), other, packer.add_constant(f"{node.name or node.output[0]}/ratios", ratios)]
    attrs = {**result_attributes(result), "a_zero": a.quantizer.zero, "b_zero": zero}
    tensor = packer.emit("Int8MatMul", names, packer.fresh(f"{result.name}/int8"), attrs)
    record(packer, result, PLAIN, tensor, rank=max(rank, packer.rank_of(read[0], a)))


def convolve(
    packer: Packer, node: NodeProto, x: QuantizedValue, w: QuantizedConstant, bias: int, result: Result
) -> None:
    """Emit a convolution by filters [M, C / group, ...]; `bias` is the position of its bias."""
    axes = w.numbers.ndim - 2
    if axes not in (1, 2):
        raise refused(node, f"its filters have {axes} spatial axes", "one or two")
    group = plain_node(node).attrs.get("group", 1)
    filters, each = w.numbers.shape[:2]
    image = w.numbers if axes == 2 else w.numbers[:, :, None]
    numbers = window_attributes(node, axes)
    depthwise = group == filters and each == 1 and group != 1
    packed = image[:, 0].transpose(1, 2, 0) if depthwise else image.transpose(0, 2, 3, 1)
    more: dict[str, int] = {} if depthwise else {"group": int(group) if isinstance(group, int) else 1}
    op = "Int8DepthwiseConv" if depthwise else "Int8Conv"
    tensor = _sums(packer, node, op, packer.tensor_of(x, axes), x, w, packed, bias, result, {**numbers, **more})
    record(packer, result, axes, tensor, filters)


def multiply(
    packer: Packer, node: NodeProto, x: QuantizedValue, w: QuantizedConstant, bias: int, result: Result
) -> None:
    """Emit a product of rows with a matrix [K, N]; `bias` is the position of a bias, -1 for none."""
    matrix = w.numbers.T
    if x.images is not None:
        channels = x.images.channels
        if not channels or matrix.shape[1] % channels:
            raise refused(node, f"{channels} channels do not make {matrix.shape[1]} numbers", "the rows of its images")
        places = matrix.shape[1] // channels
        matrix = matrix.reshape(-1, channels, places).transpose(0, 2, 1).reshape(matrix.shape)
        rows = x.tensors[ROWS]
    else:
        rows = packer.tensor_of(x, PLAIN)
    packed = np.ascontiguousarray(matrix)[:, None, None]
    tensor = _sums(packer, node, "Int8Conv", rows, x, w, packed, bias, result, {})
    record(packer, result, PLAIN, tensor, rank=2)


def _sums(
    packer: Packer,
    node: NodeProto,
    op: str,
    image: str,
    x: QuantizedValue,
    w: QuantizedConstant,
    packed: Array,
    bias: int,
    result: Result,
    more: Attributes,
) -> str:
    """Emit a node that sums products, with its constants; returns its output."""
    filters = packed.shape[-1] if op == "Int8DepthwiseConv" else packed.shape[0]
    scales = np.broadcast_to(w.scales, (filters,))
    if len(set(w.zeros.tolist())) > 1:
        moved = packed - (w.zeros if op == "Int8DepthwiseConv" else w.zeros.reshape(-1, 1, 1, 1))
        if moved.min() < -OFFSET or moved.max() >= OFFSET:
            cause = f"its weights are {moved.min()} to {moved.max()} beside their zeros, which 8 bits do not hold"
            raise refused(node, cause, "symmetric weights, or one zero for the whole tensor")
        packed, zero = moved, 0
    else:
        zero = int(w.zeros[0])
    steps = (x.quantizer.scale * scales).astype(np.float32)
    taps = (packed - zero).sum((0, 1) if op == "Int8DepthwiseConv" else (1, 2, 3))
    start = bias_of(packer, node, bias, steps, filters) if bias >= 0 else np.zeros(filters, np.int64)
    start = start - x.quantizer.zero * taps
    if np.abs(start).max(initial=0) >= 1 << 31:
        raise refused(node, f"its bias reaches {np.abs(start).max()}, which 32 bits do not hold", "a larger scale")
    base = node.name or node.output[0]
    names = [
        packer.add_constant(f"{base}/weights", packed.astype(np.int8)),
        packer.add_constant(f"{base}/bias", start.astype(np.int32)),
        packer.add_constant(f"{base}/ratios", (steps / result.quantizer.scale).astype(np.float32)),
    ]
    attrs = {**result_attributes(result), "x_zero": x.quantizer.zero, **({"w_zero": zero} if zero else {}), **more}
    return packer.emit(op, [image, *names], packer.fresh(f"{result.name}/int8"), attrs)


def bias_of(packer: Packer, node: NodeProto, position: int, steps: Array, filters: int) -> Array:
    """A node's bias as integers, in units of the products' scale `steps`; zeros where it has none."""
    name = node.input[position] if position < len(node.input) else ""
    if not name:
        return np.zeros(filters, np.int64)
    known = packer.constants.get(name)
    if known is not None and np.array_equal(known.zeros, np.zeros_like(known.zeros)):
        scales = np.broadcast_to(known.scales, (filters,)) if known.scales.size in (1, filters) else known.scales
        if scales.shape == (filters,) and np.allclose(scales, steps, rtol=1e-5, atol=0):
            return known.numbers.reshape(-1)
    if known is None and name not in packer.initializers:
        raise refused(node, f"its bias {name!r} is computed at run time", "a constant")
    floats = known.floats if known is not None else to_array(packer.initializers[name])
    if floats.dtype.kind != "f":  # that of an operator over 8 bits is in these units already
        return floats.astype(np.int64).reshape(-1)
    if floats.size not in (1, filters):
        raise refused(node, f"its bias has {floats.size} numbers, and there are {filters} filters", "one for each")
    return np.rint(np.broadcast_to(floats.reshape(-1), (filters,)).astype(np.float64) / steps).astype(np.int64)
