"""Sums of two values, and values one behind the other."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from deployer.frontend.quantized.packing import Packer, Result, qdq_rule, qoperator_rule
from deployer.frontend.quantized.results import (
    common_layout,
    full_range,
    model_axes,
    record,
    requantized,
    result_attributes,
)
from deployer.frontend.quantized.values import NUMBERS, OFFSET, QuantizedValue, plain_node, refused


@qdq_rule("Add")
def float_add(packer: Packer, node: NodeProto) -> bool:
    """Add two values of one shape in integers."""
    a, b = (packer.value(name) for name in node.input)
    if a is None or b is None or not packer.may_have_one_shape(*node.input):
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None:
        add(packer, node.input, a, b, result)
    return result is not None


@qoperator_rule("QLinearAdd")
def linear_add(packer: Packer, node: NodeProto) -> None:
    """QLinearAdd: a, its scale and zero, b with its own, and the result's."""
    if node.input[0] in packer.initializers or node.input[3] in packer.initializers:
        raise refused(node, "one of its operands is a constant", "two values; a bias belongs to the layer before it")
    if not packer.may_have_one_shape(node.input[0], node.input[3]):
        raise refused(node, "its operands are broadcast, or their shapes are not known", "two values of one shape")
    a, b = packer.operand(node, 0), packer.operand(node, 3)
    add(packer, (node.input[0], node.input[3]), a, b, full_range(packer.quantizer(node, 6), node.output[0]))


def add(packer: Packer, read: Sequence[str], a: QuantizedValue, b: QuantizedValue, result: Result) -> None:
    """Emit the sum of two values of one shape, which are read by these names."""
    layout = common_layout((a, b))
    attrs: dict[str, int | float] = {"a_zero": a.quantizer.zero, "b_zero": b.quantizer.zero}
    for name, x in (("a_ratio", a), ("b_ratio", b)):
        attrs[name] = float(np.float32(x.quantizer.scale / result.quantizer.scale))
    names = [packer.tensor_of(x, layout) for x in (a, b)]
    tensor = packer.emit("Int8Add", names, packer.fresh(f"{result.name}/int8"), {**attrs, **result_attributes(result)})
    rank = packer.rank_of(read[0], a) or packer.rank_of(read[1], b)
    record(packer, result, layout, tensor, a.channels or b.channels, rank)


@qdq_rule("Concat")
def float_concat(packer: Packer, node: NodeProto) -> bool:
    """Concatenate values in integers."""
    values = [packer.value(name) for name in node.input]
    present = [x for x in values if x is not None]
    axis = concat_axis(packer, node, node.input, present)
    if len(present) < len(values) or axis is None:
        return False
    result = packer.following_quantizer(node.output[0])
    if result is not None:
        join(packer, present, axis, result)
    return result is not None


@qoperator_rule("QLinearConcat")
def linear_concat(packer: Packer, node: NodeProto) -> None:
    """QLinearConcat: the result's scale and zero, then each operand with its own."""
    quantizer = packer.quantizer(node, 0)
    values = [packer.operand(node, position) for position in range(2, len(node.input), 3)]
    axis = concat_axis(packer, node, node.input[2::3], values)
    if axis is None:
        raise refused(node, f"axis is {plain_node(node).attrs.get('axis', 1)}", "an axis from 0")
    join(packer, values, axis, full_range(quantizer, node.output[0]))


def concat_axis(packer: Packer, node: NodeProto, names: Sequence[str], values: Sequence[QuantizedValue]) -> int | None:
    """The axis of a concatenation of values, read by these names, from the front; None if no layout has it."""
    axis = plain_node(node).attrs.get("axis", 1)
    if not isinstance(axis, int) or any(x.images for x in values):
        return None
    rank = max((packer.rank_of(*pair) for pair in zip(names, values, strict=False)), default=0)
    return axis % rank if rank else axis if axis >= 0 else None


def join(packer: Packer, values: Sequence[QuantizedValue], axis: int, result: Result) -> None:
    """Emit the concatenation of values along an axis of the model, in the scale of the result."""
    layout, name = common_layout(values), result.name
    same = [requantized(packer, x, result.quantizer, name) for x in values]
    of_channels = axis == 1
    if isinstance(layout, int):
        axis = model_axes(layout).index(axis)
    names = [packer.tensor_of(x, layout) for x in same]
    joined = packer.emit("Int8Concat", names, packer.fresh(f"{name}/int8"), {"axis": axis})
    if (result.low, result.high) != (-OFFSET, OFFSET - 1):
        bounds = np.clip(NUMBERS, result.low, result.high).astype(np.int8)
        table = packer.add_constant(f"{name}/table", bounds)
        joined = packer.emit("Int8Lookup", [joined, table], packer.fresh(f"{name}/clipped"))
    channels = [x.channels for x in values]
    total = sum(channels) if of_channels else channels[0]
    rank = next((x.rank for x in values if x.rank), 0)
    record(packer, result, layout, joined, total if all(channels) else 0, rank)
