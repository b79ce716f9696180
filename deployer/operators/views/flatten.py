"""Flatten: a matrix whose rows are the axes before `axis`."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.view import View


def _counted_from_the_front(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 11 an axis from 0 to the rank."""
    axis = node.attr_int("axis", 1)
    if axis < 0:
        raise unsupported(node, f"axis is {axis}, which has a meaning from version 11 on only", "an axis from 0")
    return [node]


@register
class Flatten(View):
    """`axis` from -rank to rank, default 1."""

    name = "Flatten"
    versions = (11, 13, 21, 23, 24, 25)
    older: ClassVar[dict[int, Rule]] = {1: _counted_from_the_front, 9: _counted_from_the_front}

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
