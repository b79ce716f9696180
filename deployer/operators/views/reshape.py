"""Reshape: the same elements in a given shape."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from deployer.core.forms import Rule, without
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.view import View


def _attribute_form(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the shape as an attribute."""
    if "shape" not in node.attrs:
        raise unsupported(node, "it has no shape", "attribute shape")
    return [without(node, "consumed_inputs")]


@register
class Reshape(View):
    """`shape` may hold one -1 (inferred) and 0 (copied from the input unless `allowzero`)."""

    name = "Reshape"
    versions = (5, 13, 14, 19, 21, 23, 24, 25)
    older: ClassVar[dict[int, Rule]] = {1: _attribute_form}
    flags = ("allowzero",)
    static_inputs: ClassVar[dict[int, str]] = {1: "shape"}

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The given shape with 0 and -1 resolved."""
        if "shape" not in node.attrs:
            raise unsupported(node, "the shape is not constant", "a constant shape input")
        shape = list(node.attr_ints("shape", ()))
        for axis, size in enumerate(shape):
            if size == 0 and not node.attr_int("allowzero", 0):
                if axis >= len(x.shape):
                    raise mismatch(node, f"shape {tuple(shape)} copies axis {axis} of {x}", (x,))
                shape[axis] = x.shape[axis]
        if any(size < -1 for size in shape) or shape.count(-1) > 1:
            raise mismatch(node, f"shape {tuple(shape)} has a negative length or more than one -1", (x,))
        if -1 in shape:
            product = math.prod(size for size in shape if size != -1)
            if product == 0 or x.size % product:
                raise mismatch(node, f"{x.size} elements do not fill shape {tuple(shape)}", (x,))
            shape[shape.index(-1)] = x.size // product
        return tuple(shape)

    def samples(self) -> Iterator[Sample]:
        """Plain, with -1, with 0, to and from a scalar."""
        r = rng(21)
        yield Sample("plain", (normal(r, 3, 4),), {"shape": (2, 6)})
        yield Sample("infer", (normal(r, 3, 4),), {"shape": (-1, 2)})
        yield Sample("copy", (normal(r, 3, 4, 2),), {"shape": (0, -1)})
        yield Sample("allowzero", (normal(r, 3, 4),), {"shape": (12,), "allowzero": 1})
        yield Sample("to_scalar", (normal(r, 1, 1),), {"shape": ()})
        yield Sample("from_scalar", (normal(r),), {"shape": (1, 1)})
