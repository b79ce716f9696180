"""Squeeze: drop axes of one element."""

from collections.abc import Iterator
from typing import ClassVar

from deployer.core.forms import LATE_AXES
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.view import View, normalized_axes


@register
class Squeeze(View):
    """`axes` as attribute or input, an integer or a list in any order; all of one element where absent."""

    name = "Squeeze"
    versions = (1, 11, 13, 21, 23, 24, 25)
    extras = (LATE_AXES,)
    static_inputs: ClassVar[dict[int, str]] = {1: "axes"}

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's without the axes."""
        numbers = node.attr_ints("axes", ())
        if not numbers and "axes" in node.attrs and 1 in x.shape:
            cause = "axes are an empty list: ONNX removes nothing, ONNX Runtime all axes of one element"
            raise unsupported(node, cause, "the axes to remove, or no list")
        if not numbers:
            return tuple(size for size in x.shape if size != 1)
        axes = normalized_axes(node, numbers, len(x.shape), (x,))
        if any(x.shape[axis] != 1 for axis in axes):
            raise mismatch(node, f"axes {axes} of {x} are not all of one element", (x,))
        return tuple(size for axis, size in enumerate(x.shape) if axis not in axes)

    def samples(self) -> Iterator[Sample]:
        """All axes, none, one as an integer, several in any order, negative."""
        r = rng(23)
        yield Sample("all", (normal(r, 1, 3, 1),))
        yield Sample("empty", (normal(r, 2, 3),), {"axes": ()})
        yield Sample("integer", (normal(r, 3, 1, 4),), {"axes": 1})
        yield Sample("unsorted", (normal(r, 1, 3, 1, 4, 1),), {"axes": (4, 0)})
        yield Sample("negative", (normal(r, 1, 3, 1),), {"axes": (-1,)})
