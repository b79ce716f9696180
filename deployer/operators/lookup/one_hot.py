"""OneHot: along a new axis one value where the number is, and another elsewhere."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Start,
    Stride,
    Work,
    mismatch,
    register,
    rng,
    unsupported,
)
from deployer.operators.inputs import normal, words
from deployer.operators.view import normalized_axes

EXACT = 1 << 24
"""Integers up to this are floats."""


@register
class OneHot(Operator):
    """Numbers, the depth, and both values: off, on. A number counts from the end where it is negative; one that is
    outside is nowhere. The kernel compares floats, which integers up to EXACT are.
    """

    name = "OneHot"
    versions = (9, 11, 28)
    kernel = Kernel(
        "one_hot_f32",
        pointers=(("ids", "float32", False), ("values", "float32", False), ("y", "float32", True)),
        scalars=(*((n, "u32") for n in ("o", "d", "i", "d_start", "ids_o", "y_o", "y_d")), ("depth", "f32")),
    )
    moved = ("values", "y")
    static_inputs: ClassVar[dict[int, str]] = {1: "depth"}
    no_gradient = "what it depends on by numbers has none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The shape of the numbers with a new axis of `depth` elements, of the values' type."""
        if "depth" not in node.attrs:
            raise unsupported(node, "the depth is not constant", "a constant depth")
        ids, _, values = (*inputs, None, None, None)[:3]
        if ids is None or values is None or values.shape != (2,):
            raise mismatch(node, "the numbers are absent, or the values are not two", inputs)
        depth = _depth(node)
        if not 1 <= depth < EXACT:
            raise unsupported(node, f"the depth is {depth}", f"a depth from 1 to below {EXACT}")
        axis = normalized_axes(node, (node.attr_int("axis", -1),), len(ids.shape) + 1, inputs)[0]
        return (TensorType(values.dtype, (*ids.shape[:axis], depth, *ids.shape[axis:])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's comparison with all numbers."""
        ids, values = (x for x in inputs if x is not None)
        depth, axis = _depth(node), node.attr_int("axis", -1) % (ids.ndim + 1)
        places = np.arange(depth).reshape(-1, *[1] * (ids.ndim - axis))
        numbers = np.expand_dims(np.trunc(ids), axis)
        return (np.where((numbers == places) | (numbers + depth == places), values[1], values[0]),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Integers become floats first."""
        ids = inputs[0]
        if ids is None or ids.dtype == "float32":
            return None
        floats = f"{node.name}/floats"
        return [
            Node(floats, "Cast", node.inputs[:1], (floats,), {"to": TensorProto.FLOAT}),
            Node(node.name, node.op, (floats, *node.inputs[1:]), node.outputs, node.attrs),
        ]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, d and i of Y."""
        ids, _, values = node.inputs
        shape = types[ids].shape
        axis = node.attr_int("axis", -1) % (len(shape) + 1)
        o, d, i = math.prod(shape[:axis]), _depth(node), math.prod(shape[axis:])
        listed = (
            Operand("ids", ids, "in", (o, i), (At("o"), At("i"))),
            Operand("values", values, "in", (2,), (Whole(),)),
            Operand("y", node.outputs[0], "out", (o, d, i), (At("o"), At("d"), At("i"))),
        )
        return Access((Dim("o", o), Dim("d", d), Dim("i", i)), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the tile's first place, strides, the depth."""
        return {
            **{name: Extent(name) for name in "odi"},
            **{"d_start": Start("d"), "ids_o": Stride("ids", 0), "y_o": Stride("y", 0), "y_d": Stride("y", 1)},
            "depth": Const(float(_depth(node))),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One comparison per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)

    def samples(self) -> Iterator[Sample]:
        """A new axis at the end, in front and between; negative numbers, and such that are outside; as floats."""
        r = rng(155)
        for axis in (-1, 0, 1):
            numbers = np.asarray(r.integers(-4, 4, (3, 5)), np.int32)
            yield Sample(
                f"integers{axis}",
                (numbers, None, np.array([0.5, -2], np.float32)),
                {"depth": 4.0, "axis": axis},
                onnx=False,
            )
        forms: dict[str, tuple[tuple[int, ...], int, int]] = {
            "vector": ((7,), 5, -1),
            "matrix": ((3, 5), 6, -1),
            "front": ((3, 5), 4, 0),
            "between": ((3, 5), 7, 1),
            "one": ((), 5, -1),
        }
        for label, (shape, depth, axis) in forms.items():
            numbers = np.asarray(r.integers(-depth, depth, shape), np.float32)
            attrs: dict[str, AttrValue] = {"depth": depth, "axis": axis}
            yield Sample(label, (numbers, None, normal(r, 2)), attrs, onnx=False)
        numbers = np.asarray(r.integers(-6, 6, (3, 5)), np.int32)
        yield Sample("integer_values", (numbers, None, words(r, 2)), {"depth": 6, "axis": 1}, onnx=False)
        outside = np.array([-9, 2, 5, 4, -5, -6], np.int32)
        yield Sample("outside", (outside, None, normal(r, 2)), {"depth": 5}, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Few and many numbers."""
        r = rng(156)
        for count, depth, axis in ((8, 16, -1), (64, 32, -1), (64, 32, 0), (256, 4, -1)):
            numbers = np.asarray(r.integers(0, depth, count), np.float32)
            yield Sample(
                f"{count} {depth} {axis}", (numbers, None, normal(r, 2)), {"depth": depth, "axis": axis}, onnx=False
            )


def _depth(node: Node) -> int:
    """The depth, which may come as a float or as a list of one."""
    value = node.attrs["depth"]
    number = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    if not isinstance(number, int | float) or number != int(number):
        raise unsupported(node, f"the depth is {value!r}", "a whole number")
    return int(number)
