"""Sums of two values, and values one behind the other."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from deployer.frontend.quantized.packing import Packer, between_borders, over_eights
from deployer.frontend.quantized.results import (
    Result,
    channels_last,
    frame,
    keep,
    layout_of,
    operand,
    requantized,
    whole,
)
from deployer.frontend.quantized.values import (
    EVERY,
    SHIFT,
    Codes,
    plain_node,
    refused,
)


@between_borders("Add")
def float_add(packer: Packer, node: NodeProto) -> bool:
    """The sum of two quantized values of one shape."""
    a, b = (packer.value(name) for name in node.input)
    if a is None or b is None or not packer.same_shape(*node.input):
        return False
    return (result := packer.tail(node.output[0])) is not None and add(packer, a, b, result)


@over_eights("QLinearAdd")
def linear_add(packer: Packer, node: NodeProto) -> None:
    """QLinearAdd: a, its scale and zero, b with its own, and the result's."""
    if node.input[0] in packer.initializers or node.input[3] in packer.initializers:
        raise refused(node, "one of its operands is a constant", "two values; a bias belongs to the layer before it")
    if not packer.same_shape(node.input[0], node.input[3]):
        raise refused(node, "its operands are broadcast, or their shapes are not known", "two values of one shape")
    a, b = operand(packer, node, 0), operand(packer, node, 3)
    add(packer, a, b, whole(packer.quantizer(node, 6), node.output[0]))


def add(packer: Packer, a: Codes, b: Codes, result: Result) -> bool:
    """The sum of two values of one shape."""
    layout = layout_of((a, b))
    names = [packer.form(x, layout) for x in (a, b)]
    ratios = [float(np.float32(x.quantizer.scale / result[0].scale)) for x in (a, b)]
    zeros = {"a_zero": a.quantizer.zero, "b_zero": b.quantizer.zero}
    more: dict[str, int | float] = {"a_ratio": ratios[0], "b_ratio": ratios[1], **zeros, **frame(result)}
    keep(
        packer,
        result,
        layout,
        packer.emit("Int8Add", names, packer.fresh(f"{result[3]}/int8"), more),
        a.channels or b.channels,
    )
    return True


@between_borders("Concat")
def float_concat(packer: Packer, node: NodeProto) -> bool:
    """Quantized values one behind the other."""
    values = [packer.value(name) for name in node.input]
    present = [x for x in values if x is not None]
    axis = plain_node(node).attrs.get("axis", 1)
    rank = 2 + layout if isinstance(layout := layout_of(present), int) else 0
    if len(present) < len(values) or not isinstance(axis, int) or any(x.origin for x in present):
        return False
    if rank == 0 and axis < 0:
        return False
    result = packer.tail(node.output[0])
    return result is not None and join(packer, present, axis % rank if rank else axis, result)


@over_eights("QLinearConcat")
def linear_concat(packer: Packer, node: NodeProto) -> None:
    """QLinearConcat: y's scale and zero, then each operand with its own."""
    quantizer, axis = packer.quantizer(node, 0), plain_node(node).attrs.get("axis", 1)
    values = [operand(packer, node, position) for position in range(2, len(node.input), 3)]
    rank = 2 + layout if isinstance(layout := layout_of(values), int) else 0
    if not isinstance(axis, int) or (axis < 0 and not rank) or any(x.origin for x in values):
        raise refused(node, f"axis is {axis}", "an axis from 0")
    join(packer, values, axis % rank if rank else axis, whole(quantizer, node.output[0]))


def join(packer: Packer, values: Sequence[Codes], axis: int, result: Result) -> bool:
    """Values one behind the other, all in the scale of the result."""
    layout = layout_of(values)
    name = result[3]
    same = [requantized(packer, x, result[0], name) for x in values]
    if isinstance(layout, int):
        axis = channels_last(layout).index(axis)
    names = [packer.form(x, layout) for x in same]
    joined = (
        packer.emit("Int8Concat", names, packer.fresh(f"{name}/int8"), {"axis": axis}) if len(names) > 1 else names[0]
    )
    if result[1:3] != (-SHIFT, SHIFT - 1):
        bounds = np.clip(EVERY, result[1], result[2]).astype(np.int8)
        table = packer.tensor(f"{name}/table", bounds)
        joined = packer.emit("Int8Lookup", [joined, table], packer.fresh(f"{name}/clipped"))
    channels = [x.channels for x in values]
    known = sum(channels) if all(channels) else 0
    keep(packer, result, layout, joined, known if axis == len(channels_last(layout)) - 1 else channels[0])
    return True
