"""Windows of three by three whose rows kernels may take whole, with the borders in the same blocks: when that is so."""

import math
from collections.abc import Mapping
from functools import lru_cache

from deployer.core.access import Access, Operand, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import most, turns
from deployer.operators.convolution.geometry import SIDE
from deployer.operators.convolution.rectangles import Met, met_taps, most_met
from deployer.operators.products import PRODUCTS, block_of

FOURS = "fours"
"""The form of work by four neighbours in a row, each with three taps in a row."""
THINNED = "thinned"
"""The same in the gradient of X of a layer with strides of two, where elements meet one tap in a row or two."""
MOVING = "moving"
"""The same in a layer with strides of two along a row."""
PAIRS = "pairs"
"""The form of a gradient of W by pairs of columns."""


def fours_form(access: Access, operand: str, tile: Mapping[str, int], channels: str) -> str:
    """FOURS, MOVING or THINNED where the layer's windows over `operand`, X or dY, are taken so, else an empty string.

    Only the first and the last column lack taps, one each, and all outputs are in blocks of four neighbours by four
    `channels`, a dim's name.
    """
    rows, columns = _windows(access.operand(operand))
    size, length = access.dim(columns.dim).size, access.operand(operand).view[-1]
    if not _is_square(access.operand("w")) or columns.dilation > 1 or tile[channels] % FACTS.block:
        return ""
    backwards = isinstance(columns, Reach)
    if backwards and rows.stride == columns.stride > 1:
        whole = FACTS.block * columns.stride
        fits = columns.stride < SIDE and columns.pad == 1 and size % whole == tile[columns.dim] % whole == 0
        return THINNED if fits else ""
    if columns.stride >= SIDE or (backwards and rows.stride * columns.stride > 1):
        return ""
    if tile[columns.dim] % FACTS.block or (size == FACTS.block and columns.stride == 1):
        return ""
    left = columns.offset({columns.dim: (0, size)}, length) - (SIDE - 1 if backwards else 0)
    if left < -1 or left + columns.stride * size >= length:
        return ""
    return MOVING if columns.stride > 1 else FOURS


def fours_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The work over `operand` of a tile that is taken in FOURS, MOVING or THINNED, whose results have these `channels`.

    The core with most of it decides: blocks are dealt out one by one, and those at a border have fewer taps. `macs`
    counts all taps, also those in padding. An inner loop begins for each block and each block of its sum. Elements are
    outputs, and what it takes to begin each plane of neighbours.
    """
    summed = "c" if channels == "m" else "m"
    each = tile["n"] * tile["g"] * (tile[channels] // FACTS.block)
    rows, columns = met_taps(access, operand, tile)
    met = math.prod(most_met(axis) for axis in _windows(access.operand(operand)))
    planes, pieces = rows.phases * columns.phases, each * len(rows.taps) * len(columns.taps) // FACTS.block
    share = pieces / turns(pieces)
    lost = round(FACTS.block * _most_taps(rows, columns, each) * tile[summed] * share) - macs
    sums = -(-tile[summed] // block_of(access.dim(summed).size, met))
    elements = FACTS.block**2 * pieces + round(FACTS.plane_setup * (planes - 1) * share)
    return Work(macs, elements, pieces, form, lost, pieces * sums)


@lru_cache(4096)
def _most_taps(rows: Met, columns: Met, channels: int) -> float:
    """The taps of all blocks of the core with the most.

    Blocks are dealt out in turn, plane by plane: fours at the first column, those between, those at the last; of these
    row by row.
    """
    dealt: list[tuple[int, float]] = []
    for down in range(rows.phases):
        for along in range(columns.phases):
            line = columns.taps[along :: columns.apart]
            fours = [sum(line[i : i + FACTS.block]) for i in range(0, len(line), FACTS.block)]
            whole = FACTS.block * max(line)
            begin, end = int(fours[0] < whole), len(fours) - int(len(fours) > 1 and fours[-1] < whole)
            for part in (fours[:begin], fours[begin:end], fours[end:]):
                dealt += [(channels * len(part), row * part[0]) for row in rows.taps[down :: rows.apart] if part]
    return most(dealt)


def in_pairs(access: Access, tile: Mapping[str, int]) -> bool:
    """Whether the gradient of W sums rows by pairs of columns: whole rows, with one column of zeros before them, and
    one behind them unless the stride is two.
    """
    _, columns = _windows(access.operand("x"))
    size, length = access.dim(columns.dim).size, access.operand("x").view[-1]
    if not _is_square(access.operand("grad")) or columns.dilation > 1 or columns.pad != 1:
        return False
    if size % 2 or size > PRODUCTS or tile["m"] < FACTS.block or tile[columns.dim] < size:
        return False
    if columns.stride == 1:
        return length == size > FACTS.block
    return columns.stride < SIDE and length >= columns.stride * size and size > 2


def _is_square(weights: Operand) -> bool:
    return weights.view[-2:] == (SIDE, SIDE)


def _windows(operand: Operand) -> list[Window | Reach]:
    return [axis for axis in operand.axes if isinstance(axis, Window | Reach)]
