"""Layers that kernels compute by rectangles of outputs with the same taps inside the operand: at what cost."""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from deployer.core.access import Access, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import most, parts_of_planes, worth_fours
from deployer.operators.convolution.geometry import SIDE, taps_between, window_axes
from deployer.operators.products import block_of

Run = tuple[int, int]
"""Neighbouring outputs along an axis, and the taps of each inside the operand."""


class _Blocks(NamedTuple):
    """So many blocks of `channels` by `outputs`, each over `rows` x `columns` taps of each channel of the sum.

    Rows of taps are code `in_line`, or a loop.
    """

    number: int
    channels: int
    outputs: int
    rows: int
    columns: int
    in_line: bool = False

    @property
    def _kind(self) -> int:
        """Four channels by four outputs, four sums that share a factor, or one."""
        return (self.channels < FACTS.block) + (self.outputs < FACTS.block)

    @property
    def begins(self) -> int:
        """How long a block takes to begin and to end, in halves of one of a single sum."""
        return FACTS.begun[self._kind]

    @property
    def products(self) -> float:
        """The multiply-accumulates of a block and a channel of the sum, and the steps behind its rows of taps."""
        taps = self.rows * self.columns
        macs = self.channels * self.outputs * taps
        ends = taps > 1 if self.in_line or 1 in (self.rows, self.columns) else self.rows + 1
        each = (FACTS.in_line if self.in_line else FACTS.in_loops)[self._kind]
        return each * macs + FACTS.step_behind * ends if macs else 0


def rectangle_work(
    access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str, in_line: int = 0
) -> Work:
    """The work over `operand`, X or dY, of a tile whose results have these `channels`, a dim's name.

    A rectangle is blocks of four outputs, or of single ones, for four channels or what is left of them. Those of all
    rectangles are dealt out one by one, so that the core with most products decides. `macs` counts all taps, also those
    in padding, which cost nothing. Elements are the kinds of blocks of each rectangle, which every core begins; runs
    are blocks, by how long they take to begin, for each block of the sum. Up to `in_line` taps of a row are code
    without a loop.
    """
    rows, columns = (met.runs for met in met_taps(access, operand, tile))
    blocks = list(_blocks(rows, columns, tile["n"] * tile["g"], tile[channels], in_line))
    return _work(access, operand, tile, channels, blocks, len(blocks), macs, form)


def single_tap_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The same of one tap, row by row, where whole rows without a stride are one. Outputs without a tap are filled."""
    down, along = window_axes(access.operand(operand))
    rows, columns = (met.runs for met in met_taps(access, operand, tile))
    if down.stride * along.stride == 1 and tile[along.dim] == access.dim(along.dim).size:
        rows, columns = [(1, 1)], [(tile[down.dim] * tile[along.dim], 1)]
    blocks = list(_row_blocks(rows, columns, tile["n"] * tile["g"] * tile[channels] // FACTS.block))
    empty = sum(row_taps * column_taps == 0 for _, row_taps in rows for _, column_taps in columns)
    return _work(access, operand, tile, channels, blocks, len(blocks) + empty, macs, form)


def line_work(access: Access, operand: str, tile: Mapping[str, int], form: str) -> Work:
    """The work of layers of one channel in and one out, whose rectangles are lines along their longer sides.

    Cores share channels, or halves or quarters of all lines of one. Elements are outputs; runs are what comes before a
    rectangle's lines and before each of them.
    """
    planes = tile["n"] * tile["g"]
    parts = parts_of_planes(planes)
    products = outputs = begun = 0
    rows, columns = (met.runs for met in met_taps(access, operand, tile))
    for height, row_taps in rows:
        for width, column_taps in columns:
            products += height * width * row_taps * column_taps
            outputs += height * width
            begun += FACTS.lines_begun + min(height, width)
    return Work(planes * products, planes * outputs, planes * parts, form, runs=planes * parts * begun)


def matrix_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The same in whole blocks of a product of matrices; cores share blocks of channels at an output."""
    pixels, planes = math.prod(tile[axis.dim] for axis in window_axes(access.operand(operand))), tile["n"] * tile["g"]
    elements = planes * tile[channels] * (pixels + FACTS.region_setup)
    return Work(macs, elements, planes * -(-tile[channels] // FACTS.block) * pixels, form)


def _work(
    access: Access,
    operand: str,
    tile: Mapping[str, int],
    channels: str,
    blocks: list[_Blocks],
    begun: int,
    macs: int,
    form: str,
) -> Work:
    """The work of blocks, of which cores begin so many kinds."""
    summed = "c" if channels == "m" else "m"
    meets = math.prod(most_met(axis) for axis in window_axes(access.operand(operand)))
    sums = -(-tile[summed] // block_of(access.dim(summed).size, meets))
    pieces = max(sum(block.number for block in blocks), 1)
    share = pieces / FACTS.turns(pieces)
    lost = round(most([(block.number, block.products) for block in blocks]) * tile[summed] * share) - macs
    runs = sum(block.number * block.begins for block in blocks)
    return Work(macs, round(begun * share), pieces, form, lost, runs * sums)


def _blocks(rows: list[Run], columns: list[Run], planes: int, channels: int, in_line: int) -> Iterator[_Blocks]:
    """The blocks of each rectangle in the order in which they are dealt out."""
    fours, rest = divmod(channels, FACTS.block)
    for height, row_taps in rows:
        for width, column_taps in columns:
            for count, size in ((fours, FACTS.block), (rest, 1)):
                groups, four = planes * count, height * width // FACTS.block
                four = four if worth_fours(groups * four) else 0
                single = height * width - FACTS.block * four
                for number, outputs in ((groups * single, 1), (groups * four, FACTS.block)):
                    if number:
                        line = _is_in_line(size, outputs, column_taps, in_line)
                        yield _Blocks(number, size, outputs, row_taps, column_taps, line)


def _is_in_line(channels: int, outputs: int, taps: int, most: int) -> bool:
    """Whether a row of taps is code without a loop in a block, where it may be one of up to so many.

    In blocks of four by four it is a row of just so many, of three or two; a single sum has none.
    """
    if channels * outputs == FACTS.block**2:
        return taps == most <= SIDE
    least = min(SIDE, most) if channels == FACTS.block else 2
    return least <= taps <= most and channels * outputs > 1


def _row_blocks(rows: list[Run], columns: list[Run], channels: int) -> Iterator[_Blocks]:
    """The blocks of single taps, of so many fours of channels; none where there is no tap."""
    for height, row_taps in rows:
        for width, column_taps in columns:
            if row_taps * column_taps == 0:
                continue
            four = width // FACTS.block if worth_fours(channels * height * (width // FACTS.block)) else 0
            if channels * height * four:
                yield _Blocks(channels * height * four, FACTS.block, FACTS.block, 1, 1)
            if width > FACTS.block * four:
                yield _Blocks(channels * height * (width - FACTS.block * four), FACTS.block, 1, 1, 1)


def most_met(axis: Window | Reach) -> int:
    """The most taps along an axis that an output meets."""
    return axis.kernel if isinstance(axis, Window) else -(-axis.kernel // taps_between(axis.stride, axis.dilation)[0])


class Met(NamedTuple):
    """For each output of a tile along an axis the taps inside the operand; every `apart`-th of them is a neighbour.

    `whole` are as many as these have where no tap is outside.
    """

    taps: tuple[int, ...]
    apart: int
    whole: tuple[int, ...]

    def share(self, kernel: int) -> float:
        """The share of taps inside, of so many for each output."""
        return sum(self.taps) / (len(self.taps) * kernel)

    @property
    def phases(self) -> int:
        """Planes or lines of neighbours."""
        return min(self.apart, len(self.taps))

    @property
    def runs(self) -> list[Run]:
        """Neighbours with all their taps; those at the borders are alone."""
        found: list[Run] = []
        for phase in range(self.phases):
            taps, whole = self.taps[phase :: self.apart], self.whole[phase]
            inside = taps.count(whole)
            found += [(inside, whole)] * (inside > 0) + [(1, count) for count in taps if count < whole]
        return found


def met_taps(access: Access, operand: str, tile: Mapping[str, int]) -> tuple[Met, Met]:
    """For the rows and columns of a tile the taps inside `operand`, X or dY.

    Of three whole tiles or more along an axis, some lie between two others: it is one in the middle then, of those that
    begin in different planes of neighbours the one with most taps, else the first.
    """
    axes = zip(access.operand(operand).axes, access.operand(operand).view, strict=True)
    rows, columns = (
        _met(axis, tile[axis.dim], access.dim(axis.dim).size, size)
        for axis, size in axes
        if isinstance(axis, Window | Reach)
    )
    return rows, columns


@lru_cache(4096)
def _met(axis: Window | Reach, outputs: int, whole: int, size: int) -> Met:
    apart = axis.stride if isinstance(axis, Reach) else 1
    middle = (whole - outputs) // 2
    begins = range(middle, min(middle + apart, whole - outputs + 1)) if whole >= 3 * outputs else range(1)
    each = [(tuple(_taps(axis, begin + i, size) for i in range(outputs)), begin) for begin in begins]
    taps, begin = max(each, key=lambda found: sum(found[0]))
    return Met(taps, apart, tuple(_all_taps(axis, begin + i) for i in range(min(apart, outputs))))


def _taps(axis: Window | Reach, output: int, size: int) -> int:
    """The taps of an output that lie inside of the operand."""
    if isinstance(axis, Window):
        begin = output * axis.stride - axis.pad
        return sum(0 <= begin + k * axis.dilation < size for k in range(axis.kernel))
    begins = [output + axis.pad - k * axis.dilation for k in range(axis.kernel)]
    return sum(begin % axis.stride == 0 and 0 <= begin // axis.stride < size for begin in begins)


def _all_taps(axis: Window | Reach, output: int) -> int:
    """The taps that an output has where none is outside."""
    if isinstance(axis, Window):
        return axis.kernel
    return sum((output + axis.pad - k * axis.dilation) % axis.stride == 0 for k in range(axis.kernel))
