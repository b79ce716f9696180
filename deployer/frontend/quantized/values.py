"""Values of a quantized model: numbers of 8 bits with their scale and zero, and constants."""

from dataclasses import dataclass, field, replace

import numpy as np
from onnx import NodeProto, TensorProto, helper

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, unsupported

EIGHT_BITS: dict[int, str] = {TensorProto.INT8: "int8", TensorProto.UINT8: "uint8"}
"""Element types of 8 bits of ONNX, and those of targets."""
OFFSET = 128
"""Difference between an unsigned number of 8 bits and the signed one that stands for it."""
NUMBERS = np.arange(-OFFSET, OFFSET)
"""All signed numbers of 8 bits."""
PLAIN, ROWS = "plain", "rows"
"""Layouts beside those of images: the model's own, and rows that are images flattened with their channels innermost."""
Layout = str | int
"""Layout of a tensor: PLAIN, ROWS, or the number of spatial axes of images with their channels innermost; a signal has
one row.
"""


@dataclass(frozen=True)
class Quantizer:
    """Scale and zero of a value, the zero of a signed number; `unsigned` is the model's type."""

    scale: np.float32
    zero: int
    unsigned: bool

    def quantized(self, floats: Array) -> Array:
        """Quantize floats: divide, round half to even, add the zero and clip; NaN becomes the least number."""
        quotients = np.nan_to_num(np.asarray(floats, np.float32) / self.scale, nan=-np.inf)
        whole = np.rint(np.clip(quotients, -2 * OFFSET, 2 * OFFSET))
        return np.asarray(np.clip(whole + self.zero, -OFFSET, OFFSET - 1), np.int8)

    def dequantized(self, numbers: Array) -> Array:
        """Floats that signed numbers of 8 bits stand for."""
        return np.asarray((numbers.astype(np.int64) - self.zero).astype(np.float32) * self.scale)


@dataclass(eq=False)
class QuantizedValue:
    """A value of 8 bits, and the tensors that hold it, by layout.

    `source` is the float tensor that is quantized, where there is one, `given` the model's input that has the numbers
    in its own type. An `exact` source holds the very floats that the numbers stand for. `images` of rows are those that
    were flattened with their channels innermost, and `channels` the number of these, 0 if unknown. `rank` is the number
    of its axes in the model, 0 if unknown.
    """

    quantizer: Quantizer
    tensors: dict[Layout, str] = field(default_factory=dict)
    source: str = ""
    exact: bool = False
    given: str = ""
    images: "QuantizedValue | None" = None
    channels: int = 0
    rank: int = 0

    @property
    def spatial_axes(self) -> int:
        """Spatial axes of the images that hold it with their channels innermost; 0 if none do."""
        return next((layout for layout in self.tensors if isinstance(layout, int)), 0)


@dataclass(frozen=True, eq=False)
class QuantizedConstant:
    """Constant of 8 bits, or a bias of 32: signed numbers, with scales and zeros along an axis."""

    numbers: Array
    scales: Array
    zeros: Array
    axis: int

    def along(self, array: Array) -> Array:
        """Scales or zeros in a shape that broadcasts over the numbers."""
        return along_axis(array, self.numbers.ndim, self.axis)

    @property
    def floats(self) -> Array:
        """Floats that the numbers stand for."""
        wide = self.numbers.astype(np.int64) - self.along(self.zeros)
        return wide.astype(np.float32) * self.along(self.scales)


def along_axis(array: Array, rank: int, axis: int) -> Array:
    """One number, or one for each index of an axis, in a shape that broadcasts over that rank."""
    shape = [1] * rank
    if array.size > 1:
        shape[axis] = array.size
    return array.reshape(shape)


def plain_node(proto: NodeProto) -> Node:
    """A file's node with those attributes that are numbers or texts; tensors and graphs are left out.

    UnsupportedOperator for an attribute without a value of its own.
    """
    name = proto.name or f"{proto.op_type}_{next((o for o in proto.output if o), 'none')}"
    node, attrs = Node(name, proto.op_type, tuple(proto.input), tuple(proto.output)), dict[str, AttrValue]()
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            why = f"attribute {attribute.name!r} refers to attribute {attribute.ref_attr_name!r} of a function"
            raise unsupported(node, f"{why}, and is in none", "a value of its own")
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError:
            raise unsupported(node, f"attribute {attribute.name!r} has no value of a known kind", "a value") from None
        if isinstance(value, bytes):
            attrs[attribute.name] = value.decode(errors="replace")
        elif isinstance(value, int | float):
            attrs[attribute.name] = value
        elif isinstance(value, list) and all(isinstance(n, int) for n in value):
            attrs[attribute.name] = tuple(value)
    return replace(node, attrs=attrs)


def refused(proto: NodeProto, why: str, nearest: str) -> UnsupportedOperator:
    """The error for a node of a quantized model that cannot be computed."""
    return unsupported(plain_node(proto), why, nearest)
