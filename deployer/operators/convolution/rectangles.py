"""Layers that kernels compute by rectangles of outputs with the same taps inside the operand: at what cost."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from deployer.core.access import Access, Reach, Window
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import Work
from deployer.operators.convolution.dealing import most, turns, worth_fours
from deployer.operators.convolution.geometry import SIDE, taps_between
from deployer.operators.products import block_of

Run = tuple[int, int]
"""Neighbouring outputs along an axis, and the taps of each inside the operand."""


class _Blocks(NamedTuple):
    """So many blocks of `channels` by `outputs`, each over `rows` x `columns` taps of each channel of the sum.

    Neighbours under single taps are `matrix` blocks, as those of a product are. A row of taps is a `loop` where there
    are many, or where more than two lie apart.
    """

    number: int
    channels: int
    outputs: int
    rows: int
    columns: int
    loop: bool
    matrix: bool = False

    @property
    def begins(self) -> int:
        """How long a block takes to begin and to end, in halves of one of four channels and a single output."""
        single, product, other = FACTS.begun
        if self.channels < FACTS.block:
            return other
        return product if self.matrix else other if self.outputs == FACTS.block else single

    @property
    def products(self) -> float:
        """The multiply-accumulates of a block and a channel of the sum, and what its rows of taps cost besides."""
        macs = self.channels * self.outputs * self.rows * self.columns
        if self.channels < FACTS.block:
            return FACTS.lone_channel * macs
        if self.outputs < FACTS.block:
            return (FACTS.lone_output[self.loop] if self.rows * self.columns > 1 else 1 + FACTS.single) * macs
        if self.matrix or (self.columns == SIDE and not self.loop):
            return macs
        return FACTS.other_row * self.rows + FACTS.other_taps[self.loop] * macs


def rectangle_work(access: Access, operand: str, tile: Mapping[str, int], channels: str, macs: int, form: str) -> Work:
    """The work over `operand`, X or dY, of a tile whose results have these `channels`, a dim's name.

    A rectangle is blocks of four outputs, or of single ones, for four channels or what is left of them. Those of all
    rectangles are dealt out one by one, so that the core with most products decides. `macs` counts all taps, also those
    in padding, which cost nothing. Elements are the kinds of blocks of each rectangle, which every core begins; runs
    are blocks, by how long they take to begin, for each block of the sum.
    """
    rows, columns = (met.runs for met in met_taps(access, operand, tile))
    axes = (axis for axis in access.operand(operand).axes if isinstance(axis, Window | Reach))
    down, along = axes
    meets, apart = most_met(down) * most_met(along), most_met(along) < along.kernel or along.dilation > 1
    return _work(access, tile, channels, rows, columns, (meets, apart), macs, form)


def single_taps_work(
    access: Access, tile: Mapping[str, int], channels: str, sides: tuple[str, str], macs: int, form: str
) -> Work:
    """The same of single taps without a stride, where whole rows, whose dims are `sides`, are one long one."""
    height, width = (tile[name] for name in sides)
    if width == access.dim(sides[1]).size:
        height, width = 1, height * width
    return _work(access, tile, channels, [(height, 1)], [(width, 1)], (1, False), macs, form)


def matrix_work(tile: Mapping[str, int], channels: str, sides: tuple[str, str], macs: int, form: str) -> Work:
    """The same in whole blocks of a product of matrices; cores share blocks of channels at an output."""
    pixels, planes = tile[sides[0]] * tile[sides[1]], tile["n"] * tile["g"]
    elements = planes * tile[channels] * (pixels + FACTS.region_setup)
    return Work(macs, elements, planes * -(-tile[channels] // FACTS.block) * pixels, form)


def _work(
    access: Access,
    tile: Mapping[str, int],
    channels: str,
    rows: list[Run],
    columns: list[Run],
    taps: tuple[int, bool],
    macs: int,
    form: str,
) -> Work:
    """The work of the rectangles of these rows by these columns.

    An output meets so many `taps` at most, which in a row lie apart or side by side.
    """
    summed = "c" if channels == "m" else "m"
    blocks = list(_blocks(rows, columns, tile["n"] * tile["g"], tile[channels], taps[1]))
    sums = -(-tile[summed] // block_of(access.dim(summed).size, taps[0]))
    pieces = max(sum(block.number for block in blocks), 1)
    share = pieces / turns(pieces)
    lost = round(most([(block.number, block.products) for block in blocks]) * tile[summed] * share) - macs
    empty = sum(height_taps * width_taps == 0 for _, height_taps in rows for _, width_taps in columns)
    begun = sum(block.number * block.begins for block in blocks)
    return Work(macs, round((len(blocks) + empty) * share), pieces, form, lost, begun * sums)


def _blocks(rows: list[Run], columns: list[Run], planes: int, channels: int, apart: bool) -> Iterator[_Blocks]:
    """The blocks of each rectangle in the order in which they are dealt out; none where there is no tap."""
    fours, rest = divmod(channels, FACTS.block)
    for height, row_taps in rows:
        for width, column_taps in columns:
            if row_taps * column_taps == 0:
                continue
            loop = column_taps > (2 if apart else FACTS.block)
            for count, size in ((fours, FACTS.block), (rest, 1)):
                groups, four = planes * count, height * (width // FACTS.block)
                matrix = row_taps * column_taps == 1 and size == FACTS.block and worth_fours(groups * four)
                if not matrix:
                    four = height * width // FACTS.block
                    four = four if worth_fours(groups * four) else 0
                single = height * width - FACTS.block * four
                if groups * single:
                    yield _Blocks(groups * single, size, 1, row_taps, column_taps, loop)
                if groups * four:
                    yield _Blocks(groups * four, size, FACTS.block, row_taps, column_taps, loop, matrix)


def most_met(axis: Window | Reach) -> int:
    """The most taps along an axis that an output meets."""
    return axis.kernel if isinstance(axis, Window) else -(-axis.kernel // taps_between(axis.stride, axis.dilation)[0])


class Met(NamedTuple):
    """For each output of a tile along an axis the taps inside the operand; every `apart`-th of them is a neighbour."""

    taps: tuple[int, ...]
    apart: int

    def share(self, kernel: int) -> float:
        """The share of taps inside, of so many for each output."""
        return sum(self.taps) / (len(self.taps) * kernel)

    @property
    def phases(self) -> int:
        """Planes or lines of neighbours."""
        return min(self.apart, len(self.taps))

    @property
    def runs(self) -> list[Run]:
        """Neighbours with as many taps; those at the borders are alone."""
        found: list[Run] = []
        for phase in range(self.phases):
            taps = self.taps[phase :: self.apart]
            whole = taps.count(max(taps))
            found += [(whole, max(taps)), *((1, count) for count in taps if count < max(taps))]
        return found


def met_taps(access: Access, operand: str, tile: Mapping[str, int]) -> tuple[Met, Met]:
    """For the rows and columns of a tile the taps inside `operand`, X or dY.

    Of three tiles or more along an axis, most lie between two others: it is one in the middle then, of those that begin
    in different planes of neighbours the one with most taps, else the first.
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
    begins = range(middle, min(middle + apart, whole - outputs + 1)) if whole > 2 * outputs else range(1)
    return Met(max((tuple(_taps(axis, begin + i, size) for i in range(outputs)) for begin in begins), key=sum), apart)


def _taps(axis: Window | Reach, output: int, size: int) -> int:
    """The taps of an output that lie inside of the operand."""
    if isinstance(axis, Window):
        begin = output * axis.stride - axis.pad
        return sum(0 <= begin + k * axis.dilation < size for k in range(axis.kernel))
    begins = [output + axis.pad - k * axis.dilation for k in range(axis.kernel)]
    return sum(begin % axis.stride == 0 and 0 <= begin // axis.stride < size for begin in begins)
