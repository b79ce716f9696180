"""Flatten: a matrix whose rows are the axes before `axis`."""

import math
from collections.abc import Iterator

from deployer.inputs import normal
from deployer.ir import Node, TensorType
from deployer.operator import Sample, mismatch, register, rng
from deployer.views import View


@register
class Flatten(View):
    """`axis` from -rank to rank, default 1."""

    name = "Flatten"
    versions = (1, 9, 11, 13, 21, 23, 24, 25)

    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """(product before axis, product from axis on)."""
        axis, rank = node.attr_int("axis", 1), len(x.shape)
        if not -rank <= axis <= rank:
            raise mismatch(node, f"axis {axis} outside rank {rank}", (x,))
        axis += rank if axis < 0 else 0
        return (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))

    def samples(self) -> Iterator[Sample]:
        """Default, negative, both ends."""
        r = rng(22)
        yield Sample("default", (normal(r, 2, 3, 4),))
        for label, axis in (("front", 0), ("end", 3), ("negative", -1)):
            yield Sample(label, (normal(r, 2, 3, 4),), {"axis": axis})
