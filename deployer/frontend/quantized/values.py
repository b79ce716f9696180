"""Values of a quantized model: numbers of 8 bits with their scale and zero, and constants."""

from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, unsupported

EIGHT_BITS = (TensorProto.INT8, TensorProto.UINT8)
SHIFT = 128
"""What an unsigned number of 8 bits is above the signed one that stands for it."""
EVERY = np.arange(-SHIFT, SHIFT)
"""All numbers of 8 bits."""
PLAIN, ROWS = "plain", "rows"
"""The layout of a value as in the model, and of a matrix of flattened images with their channels innermost; another one
is the number of spatial axes of images, with the channels behind them, of which a signal has one row.
"""
Layout = str | int


@dataclass(frozen=True)
class Quantizer:
    """Scale and zero of a value, the zero of a signed number; `unsigned` is what the model has."""

    scale: np.float32
    zero: int
    unsigned: bool

    def bounds(self, least: float, most: float) -> tuple[int, int]:
        """The numbers of 8 bits that two floats become, which may be infinite."""
        low, high = (np.rint(np.clip(np.float32(x) / self.scale, -1e6, 1e6)) + self.zero for x in (least, most))
        return int(np.clip(low, -SHIFT, SHIFT - 1)), int(np.clip(high, -SHIFT, SHIFT - 1))


@dataclass(eq=False)
class Codes:
    """A value of 8 bits, by the tensors that hold it in one layout or another.

    `floats` is the float that is quantized, where no tensor holds the numbers yet; where it is `exact`, it has no other
    values than those that the numbers stand for. A matrix that is flattened from
    images with their channels innermost, whose tensor is that of ROWS, has these as its `origin`. `channels` are those
    of images, 0 where unknown; a `matrix` is known to have two axes.
    """

    quantizer: Quantizer
    forms: dict[Layout, str] = field(default_factory=dict)
    floats: str = ""
    origin: "Codes | None" = None
    channels: int = 0
    exact: bool = False
    matrix: bool = False

    @property
    def images(self) -> int:
        """The spatial axes of the images that hold it, with the channels innermost; 0 where none do."""
        return next((layout for layout in self.forms if isinstance(layout, int)), 0)


@dataclass(frozen=True, eq=False)
class StoredNumbers:
    """Numbers of 8 bits, or a bias of 32, that a model holds: signed, with scales and zeros along an axis."""

    numbers: Array
    scales: Array
    zeros: Array
    axis: int

    def along(self, array: Array) -> Array:
        """Scales or zeros in a shape that broadcasts over the numbers."""
        if array.size == 1:
            return array.reshape((1,) * self.numbers.ndim)
        shape = [1] * self.numbers.ndim
        shape[self.axis] = array.size
        return array.reshape(shape)

    @property
    def floats(self) -> Array:
        """The numbers that they stand for, in float32."""
        wide = self.numbers.astype(np.int64) - self.along(self.zeros)
        return wide.astype(np.float32) * self.along(self.scales)


def plain_node(proto: NodeProto) -> Node:
    """A file's node for an error, with its numbers and texts as attributes."""
    attrs: dict[str, AttrValue] = {}
    for attribute in proto.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            attrs[attribute.name] = value.decode(errors="replace")
        elif isinstance(value, int | float):
            attrs[attribute.name] = value
        elif isinstance(value, list) and all(isinstance(n, int) for n in value):
            attrs[attribute.name] = tuple(value)
    name = proto.name or f"{proto.op_type}_{next((o for o in proto.output if o), 'none')}"
    return Node(name, proto.op_type, tuple(proto.input), tuple(proto.output), attrs)


def refused(proto: NodeProto, why: str, nearest: str) -> UnsupportedOperator:
    """The error for a node of a quantized model that has no integer form here."""
    return unsupported(plain_node(proto), why, nearest)
