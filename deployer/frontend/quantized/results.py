"""Results of operators of 8 bits: attributes of their nodes, tensors that hold them, layouts and windows."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from deployer.core.operator import Array
from deployer.frontend.quantized.packing import Packer, Result
from deployer.frontend.quantized.values import (
    OFFSET,
    PLAIN,
    ROWS,
    Layout,
    QuantizedValue,
    Quantizer,
    plain_node,
    refused,
)


def full_range(quantizer: Quantizer, name: str) -> Result:
    """Result that takes all numbers of 8 bits."""
    return Result(quantizer, -OFFSET, OFFSET - 1, name)


def result_attributes(result: Result) -> dict[str, int]:
    """Attributes by which a node requantizes its result."""
    return {"zero": result.quantizer.zero, "low": result.low, "high": result.high}


def record(
    packer: Packer, result: Result, layout: Layout, tensor: str, channels: int = 0, rank: int = 0
) -> QuantizedValue:
    """Record the tensor that holds a result; returns the value. The layout of images says their rank."""
    rank = 2 + layout if isinstance(layout, int) else rank
    value = QuantizedValue(result.quantizer, {layout: tensor}, channels=channels, rank=rank)
    packer.quantized[result.name] = value
    return value


def common_layout(values: Sequence[QuantizedValue]) -> Layout:
    """Layout for several values: that of images if one of them is held so."""
    return next((x.spatial_axes for x in values if x.spatial_axes), PLAIN)


def model_axes(layout: Layout) -> tuple[int, ...]:
    """The model's axis of each axis of a layout; -1 for the row of a signal."""
    if not isinstance(layout, int):
        return (0, 1)
    return (0, 2, 3, 1) if layout == 2 else (0, -1, 2, 1)


def requantized(packer: Packer, x: QuantizedValue, quantizer: Quantizer, name: str) -> QuantizedValue:
    """The value in another scale."""
    return x if x.quantizer == quantizer else packer.lookup(x, quantizer, lambda floats: floats, name)


def flattened(packer: Packer, x: QuantizedValue, name: str) -> QuantizedValue:
    """Rows of images that are held with their channels innermost, recorded under a name."""
    shape = packer.add_constant(f"{name}/shape", np.array([0, -1], np.int64))
    rows = packer.emit_float("Reshape", [x.tensors[x.spatial_axes], shape], packer.fresh(f"{name}/rows"))
    packer.quantized[name] = QuantizedValue(x.quantizer, {ROWS: rows}, images=x, rank=2)
    return packer.quantized[name]


def clipped(result: Result, floats: Array) -> Array:
    """Floats between those that a result's bounds stand for."""
    low, high = ((n - result.quantizer.zero) * np.float64(result.quantizer.scale) for n in (result.low, result.high))
    return np.clip(floats, low, high)


def windows_fault(node: NodeProto) -> str:
    """The reason why windows have no integer form; empty if they have one."""
    attrs = plain_node(node).attrs
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", ""):
        return f"auto_pad is {attrs['auto_pad']}"
    return "ceil_mode is 1" if attrs.get("ceil_mode", 0) else ""


def window_attributes(node: NodeProto, axes: int) -> dict[str, list[int]]:
    """Strides, dilations and pads over rows and columns; a signal is an image of one row."""
    fault = windows_fault(node)
    if fault:
        raise refused(node, fault, "pads in numbers, and ceil_mode 0")
    attrs, numbers = plain_node(node).attrs, {}
    for name, default, count in (("strides", 1, axes), ("dilations", 1, axes), ("pads", 0, 2 * axes)):
        given = attrs.get(name, (default,) * count)
        found = [n for n in (given if isinstance(given, tuple) else (given,)) if isinstance(n, int)]
        if len(found) != count:
            raise refused(node, f"{name} is {given}", f"{count} numbers")
        numbers[name] = found
    if axes == 1:
        begin, end = numbers["pads"]
        numbers["pads"] = [0, begin, 0, end]
        for name in ("strides", "dilations"):
            numbers[name] = [1, *numbers[name]]
    return numbers
