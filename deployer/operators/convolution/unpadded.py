"""Layers without padding that kernels compute in blocks of four by four sums, row after row: when and at what cost."""

import math
from collections.abc import Mapping

from deployer.core.access import Access, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work

FIRST = "first"
"""The form of a layer with one channel of X, as the first one of a network often is."""
ROWS = "rows"
"""The form of a gradient of W whose windows have rows of so many taps."""


def is_first(access: Access, tile: Mapping[str, int]) -> bool:
    """Whether a tile of one group and one channel of X, with neither padding nor dilation, is whole blocks of sums."""
    groups, _, c, *kernel = access.operand("w").view
    biased = any(operand.arg == "b" for operand in access.operands)
    whole = (tile["m"] | tile["ow"]) % FACTS.block == 0
    return groups * c * tile["n"] == 1 and kernel != [1, 1] and whole and not biased and _unpadded(access)


def first_work(access: Access, tile: Mapping[str, int]) -> Work:
    """A multiply-accumulate per tap and output; cores share blocks of channels by neighbours in a row."""
    outputs = tile["m"] * tile["oh"] * tile["ow"]
    taps = math.prod(access.operand("w").view[-2:])
    return Work(outputs * taps, outputs, outputs // FACTS.block**2, FIRST)


def is_rows(access: Access, tile: Mapping[str, int], single: bool) -> bool:
    """The same for the gradient of W, of a sum that is a `single` block, where a row of taps is made of fours."""
    groups, _, _, kh, kw = access.operand("grad").view
    whole = (tile["m"] | kw) % FACTS.block == 0
    return single and groups == 1 and kh * kw > 1 and whole and _unpadded(access)


def rows_work(access: Access, tile: Mapping[str, int]) -> Work:
    """A multiply-accumulate per weight and output of a plane; cores share blocks of outputs by taps."""
    weights = tile["m"] * tile["c"] * math.prod(access.operand("grad").view[-2:])
    return Work(weights * tile["oh"] * tile["ow"], weights, weights // FACTS.block**2, ROWS)


def _unpadded(access: Access) -> bool:
    x = access.operand("x")
    for axis, size in zip(x.axes, x.view, strict=True):
        if isinstance(axis, Window):
            begin = axis.offset({axis.dim: (0, access.dim(axis.dim).size)}, size)
            if axis.dilation > 1 or begin < 0 or begin + axis.longest(access.dim(axis.dim).size) > size:
                return False
    return True
