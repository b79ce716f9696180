"""Windows of three by three whose rows kernels may take whole, with the borders in the same blocks: at what cost."""

import math
from collections.abc import Mapping
from functools import lru_cache

from deployer.core.access import Access
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import most
from deployer.operators.convolution.geometry import window_axes
from deployer.operators.convolution.rectangles import Met, met_taps, most_met
from deployer.operators.products import block_of


def fours_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The work over `operand` of a tile by four neighbours in a row, each with three taps in a row.

    Results have these `channels`, a dim's name.

    The core with most of it decides: blocks are dealt out one by one, and those at a border have fewer taps. `macs`
    counts all taps, also those in padding. An inner loop begins for each block and each block of its sum. Elements are
    outputs, and what it takes to begin each plane of neighbours.
    """
    summed = "c" if channels == "m" else "m"
    each = tile["n"] * tile["g"] * (tile[channels] // FACTS.block)
    rows, columns = met_taps(access, operand, tile)
    met = math.prod(most_met(axis) for axis in window_axes(access.operand(operand)))
    planes, pieces = rows.phases * columns.phases, each * len(rows.taps) * len(columns.taps) // FACTS.block
    share = pieces / FACTS.turns(pieces)
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
