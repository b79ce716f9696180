"""Results of operators of 8 bits: their attributes, their places among a model's values, and operands."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from deployer.frontend.quantized.packing import Packer
from deployer.frontend.quantized.values import PLAIN, SHIFT, Codes, Quantizer, plain_node, refused

Result = tuple[Quantizer, int, int, str]
"""The quantizer, least and most number, and name of a value that an operator makes."""


def whole(quantizer: Quantizer, name: str) -> Result:
    """The result of an operator over 8 bits, which takes the whole range."""
    return quantizer, -SHIFT, SHIFT - 1, name


def frame(result: Result) -> dict[str, int]:
    """Attributes of a node's result."""
    quantizer, low, high, _ = result
    return {"zero": quantizer.zero, "low": low, "high": high}


def keep(packer: Packer, result: Result, layout: int | str, tensor: str, channels: int = 0) -> None:
    """Note which tensor holds a value of the model."""
    packer.codes[result[3]] = Codes(result[0], {layout: tensor}, channels=channels)


def operand(packer: Packer, node: NodeProto, position: int) -> Codes:
    """The value of 8 bits at a position of a node's inputs, whose scale and zero follow."""
    name, quantizer = node.input[position], packer.quantizer(node, position + 1)
    codes = packer.codes.get(name)
    if codes is None and name in packer.inputs:
        raise refused(node, f"its input {name!r} is one of the model, of 8 bits", "a QuantizeLinear before it")
    if codes is None:
        raise refused(node, f"its input {name!r} is no value of 8 bits", "a QuantizeLinear before it")
    if codes.quantizer != quantizer:
        return Codes(quantizer, dict(codes.forms)) if codes.forms else requantized(packer, codes, quantizer, name)
    return codes


def layout_of(values: Sequence[Codes]) -> int | str:
    """The layout that several values are brought to: that of images where one of them is held so."""
    return next((x.images for x in values if x.images), PLAIN)


def channels_last(layout: int | str) -> tuple[int, ...]:
    """The model's axis of each axis of a layout; a signal's row is none of them."""
    if not isinstance(layout, int):
        return (0, 1)
    return (0, 2, 3, 1) if layout == 2 else (0, -1, 2, 1)


def requantized(packer: Packer, x: Codes, quantizer: Quantizer, name: str) -> Codes:
    """The value in another scale."""
    return x if x.quantizer == quantizer else packer.lookup(x, quantizer, lambda floats: floats, name)


def clipped(packer: Packer, x: Codes, result: Result) -> Codes:
    """The value in the result's scale and bounds."""
    quantizer, low, high, name = result
    least, most = ((n - quantizer.zero) * np.float64(quantizer.scale) for n in (low, high))
    return packer.lookup(x, quantizer, lambda floats: np.clip(floats, least, most), name)


def spatial(node: NodeProto, axes: int) -> dict[str, list[int]]:
    """Strides, dilations and pads of rows and columns; a signal is an image of one row."""
    attrs = plain_node(node).attrs
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", ""):
        raise refused(node, f"auto_pad is {attrs['auto_pad']}", "pads in numbers")
    if attrs.get("ceil_mode", 0):
        raise refused(node, "ceil_mode is 1", "ceil_mode 0")
    numbers = {}
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
