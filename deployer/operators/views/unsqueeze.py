"""Unsqueeze: insert axes of one element."""

from collections.abc import Iterator
from typing import ClassVar

from deployer.core.forms import LATE_AXES
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, register, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.view import View, normalized_axes


@register
class Unsqueeze(View):
    """`axes` count in the output; attribute or input, an integer or a list in any order."""

    name = "Unsqueeze"
    versions = (1, 11, 13, 21, 23, 24, 25)
    extras = (LATE_AXES,)
    static_inputs: ClassVar[dict[int, str]] = {1: "axes"}

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The input's with a one at each of the axes."""
        if "axes" not in node.attrs:
            raise unsupported(node, "the axes are not constant", "constant axes")
        axes = node.attr_ints("axes", ())
        rank = len(x.shape) + len(axes)
        inserted = normalized_axes(node, axes, rank, (x,))
        sizes = iter(x.shape)
        return tuple(1 if axis in inserted else next(sizes) for axis in range(rank))

    def samples(self) -> Iterator[Sample]:
        """One as an integer, several in any order, negative, on a scalar."""
        r = rng(24)
        yield Sample("integer", (normal(r, 3, 4),), {"axes": 1})
        yield Sample("unsorted", (normal(r, 3, 4),), {"axes": (3, 0)})
        yield Sample("negative", (normal(r, 3, 4),), {"axes": (-1, 1)})
        yield Sample("scalar", (normal(r),), {"axes": (0, 1)})
