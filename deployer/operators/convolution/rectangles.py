"""Layers that kernels compute by rectangles of outputs with the same taps inside the operand: at what cost."""

from collections.abc import Mapping
from functools import lru_cache

from deployer.core.access import Access, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import worth_fours

Run = tuple[int, int]
"""Neighbouring outputs along an axis, and the taps of each inside the operand."""


def rectangle_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The work over `operand`, X or dY, of a tile whose results have these `channels`, a dim's name.

    A rectangle is blocks of four outputs, or of single ones, which cost more each, for four channels or what is left
    of them. `macs` counts all taps, also those in padding, which cost nothing.
    """
    planes, (blocks, rest) = tile["n"] * tile["g"], divmod(tile[channels], FACTS.block)
    summed = tile["c" if channels == "m" else "m"]
    products, begun, outputs = 0.0, 0, 0
    axes = zip(access.operand(operand).axes, access.operand(operand).view, strict=True)
    rows, columns = (_runs(a, tile[a.dim], size) for a, size in axes if isinstance(a, Window | Reach))
    for height, row_taps in rows:
        for width, column_taps in columns:
            places, taps = height * width, row_taps * column_taps
            outputs += places
            for count, size, dear in ((blocks, FACTS.block, 0.0), (rest, 1, FACTS.alone)):
                fours = places // FACTS.block if worth_fours(planes * count * (places // FACTS.block)) else 0
                singles = places - FACTS.block * fours
                products += count * size * (places * (1 + dear) + singles * FACTS.single) * taps
                begun += count * (fours + singles)
    lost = round(planes * products * summed) - macs
    return Work(macs, planes * tile[channels] * outputs, planes * begun, form, lost, planes * begun)


@lru_cache(4096)
def _runs(axis: Window | Reach, outputs: int, size: int) -> list[Run]:
    """The runs of a tile of so many outputs that begins where the axis does, over an operand of that size.

    Where an operand's elements are `stride` apart for their neighbours, each phase has runs of its own.
    """
    phases = axis.stride if isinstance(axis, Reach) else 1
    found: list[Run] = []
    for phase in range(min(phases, outputs)):
        taps = [taps_inside(axis, i, size) for i in range(phase, outputs, phases)]
        whole = taps.count(max(taps))
        found += [(whole, max(taps)), *((1, count) for count in taps if count < max(taps))]
    return found


def taps_inside(axis: Window | Reach, output: int, size: int) -> int:
    """The taps of an output that lie inside of the operand."""
    if isinstance(axis, Window):
        begin = output * axis.stride - axis.pad
        return sum(0 <= begin + k * axis.dilation < size for k in range(axis.kernel))
    begins = [output + axis.pad - k * axis.dilation for k in range(axis.kernel)]
    return sum(begin % axis.stride == 0 and 0 <= begin // axis.stride < size for begin in begins)
