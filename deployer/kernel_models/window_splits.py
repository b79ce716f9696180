"""Work splits of convolutions and their input gradients: blocks, lines, strips and planes of windows over cores."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from deployer.core.access import Access, Reach, Window
from deployer.core.ir import Node
from deployer.core.kernel import Work
from deployer.core.kernel_model import KernelModel
from deployer.operators.base.epilogue import class_with_epilogue
from deployer.operators.base.sums import block_of
from deployer.operators.base.work_split import CostModel, Tile, WorkSplit, register_split
from deployer.operators.products.convolution_geometry import Shape, taps_between, window_axes

SIDE = 3
"""Taps in each direction of the windows for which kernels of depthwise layers have code of their own."""
POINTWISE, STRIDED = "pointwise", "strided"
"""Cost classes of layers with single taps."""
DEPTHWISE, TALL, WINDOWS = "depthwise", "tall", "windows"
"""Cost classes of depthwise ones: with windows of three by three, of three columns, and of others."""


def layer_class(m: int, c: int, kernel: Shape, strides: Shape) -> str:
    """Return the cost class of a layer; `m` and `c` are one group's channels of Y and X."""
    if m == c == 1:
        return DEPTHWISE if kernel == (SIDE, SIDE) else TALL if kernel[1] == SIDE else WINDOWS
    if kernel != (1, 1):
        return "dense" if kernel[1] == SIDE else "wide" if kernel[1] > SIDE else "narrow"
    return POINTWISE if strides == (1, 1) else STRIDED


# Distribution of blocks over cores.


def most(dealt_out: Iterable[tuple[int, float]], cores: int) -> float:
    """The cost of the core with the most, where `cores` take so many pieces of a cost each in this order."""
    whole, rounds_, costs = 0.0, 0, [0.0] * cores
    for count, cost in dealt_out:
        each, rest = divmod(count, cores)
        whole += each * cost
        for piece in range(rounds_, rounds_ + rest):
            costs[piece % cores] += cost
        rounds_ += rest
    return whole + max(costs)


def plane_splits(planes: int, model: KernelModel) -> int:
    """The parts of each plane: one, or two or four where planes are few and cores would not have as many each."""
    splits = 1
    while splits < model.block and planes * splits < model.unsplit_planes and planes * splits % model.cores_assumed:
        splits *= 2
    return splits


def is_profitable(limit: tuple[int, int], blocks: int, pieces: int, model: KernelModel) -> bool:
    """Whether cores end with the blocks before they end with so many pieces, each of a share of its time."""
    of_blocks, of_pieces = limit
    return of_blocks * model.rounds(blocks) <= of_pieces * model.rounds(pieces)


def use_4x_blocks(blocks: int, model: KernelModel) -> bool:
    """Whether blocks of four outputs end before four times as many of one."""
    return blocks > 0 and is_profitable(model.output_blocks_limit, blocks, model.block * blocks, model)


# Kernels that compute rectangles of outputs with the same taps inside the operand.

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

    def _kind(self, model: KernelModel) -> int:
        """Four channels by four outputs, four sums that share a factor, or one."""
        return (self.channels < model.block) + (self.outputs < model.block)

    def begins(self, model: KernelModel) -> int:
        """Start and end overhead of a block, in halves of a single-sum block's overhead."""
        return model.block_overhead[self._kind(model)]

    def products(self, model: KernelModel) -> float:
        """The multiply-accumulates of a block and a channel of the sum, and the steps behind its rows of taps."""
        taps = self.rows * self.columns
        macs = self.channels * self.outputs * taps
        ends = taps > 1 if self.in_line or 1 in (self.rows, self.columns) else self.rows + 1
        each = (model.unrolled_mac_cost if self.in_line else model.looped_mac_cost)[self._kind(model)]
        return each * macs + model.row_overhead * ends if macs else 0


def rectangle_work(
    access: Access,
    operand: str,
    tile: Tile,
    channels: str,
    macs: int,
    cost_class: str,
    model: KernelModel,
    in_line: int = 0,
) -> Work:
    """The work over `operand`, X or dY, of a tile whose results have these `channels`, a dim's name.

    A rectangle is blocks of four outputs, or of single ones, for four channels or what is left of them. Those of all
    rectangles are dealt out one by one, so that the core with most products decides. `macs` counts all taps, also those
    in padding, which cost nothing. Elements are the kinds of blocks of each rectangle, which every core begins; runs
    are blocks, by how long they take to begin, for each block of the sum. Up to `in_line` taps of a row are code
    without a loop.
    """
    rows, columns = (met.inner_loop_starts for met in met_taps(access, operand, tile))
    blocks = list(_blocks(rows, columns, tile["n"] * tile["g"], tile[channels], in_line, model))
    return _work(access, operand, tile, channels, blocks, len(blocks), macs, cost_class, model)


def single_tap_work(
    access: Access, operand: str, tile: Tile, channels: str, macs: int, cost_class: str, model: KernelModel
) -> Work:
    """The same of one tap, row by row, where whole rows without a stride are one. Outputs without a tap are filled."""
    down, along = window_axes(access.operand(operand))
    rows, columns = (met.inner_loop_starts for met in met_taps(access, operand, tile))
    if down.stride * along.stride == 1 and tile[along.dim] == access.dim(along.dim).size:
        rows, columns = [(1, 1)], [(tile[down.dim] * tile[along.dim], 1)]
    blocks = list(_row_blocks(rows, columns, model.blocks(tile["n"] * tile["g"] * tile[channels]), model))
    empty = sum(row_taps * column_taps == 0 for _, row_taps in rows for _, column_taps in columns)
    return _work(access, operand, tile, channels, blocks, len(blocks) + empty, macs, cost_class, model)


def line_work(access: Access, operand: str, tile: Tile, cost_class: str, model: KernelModel) -> Work:
    """The work of layers of one channel in and one out, whose rectangles are lines along their longer sides.

    Cores share channels, or halves or quarters of all lines of one. Elements are outputs; runs are what comes before a
    rectangle's lines and before each of them.
    """
    planes = tile["n"] * tile["g"]
    splits = plane_splits(planes, model)
    products = outputs = begun = 0
    rows, columns = (met.inner_loop_starts for met in met_taps(access, operand, tile))
    for height, row_taps in rows:
        for width, column_taps in columns:
            products += height * width * row_taps * column_taps
            outputs += height * width
            begun += model.rectangle_starts + min(height, width)
    return Work(
        planes * products, planes * outputs, planes * splits, cost_class, inner_loop_starts=planes * splits * begun
    )


def matrix_work(
    access: Access, operand: str, tile: Tile, channels: str, macs: int, cost_class: str, model: KernelModel
) -> Work:
    """The same in whole blocks of a product of matrices; cores share blocks of channels at an output."""
    pixels, planes = math.prod(tile[axis.dim] for axis in window_axes(access.operand(operand))), tile["n"] * tile["g"]
    elements = planes * tile[channels] * (pixels + model.region_setup_elements)
    return Work(macs, elements, planes * model.blocks(tile[channels]) * pixels, cost_class)


def _work(
    access: Access,
    operand: str,
    tile: Tile,
    channels: str,
    blocks: list[_Blocks],
    begun: int,
    macs: int,
    cost_class: str,
    model: KernelModel,
) -> Work:
    """The work of blocks, of which cores begin so many kinds."""
    summed = "c" if channels == "m" else "m"
    meets = math.prod(most_met(axis) for axis in window_axes(access.operand(operand)))
    sums = -(-tile[summed] // block_of(access.dim(summed).size, meets))
    pieces = max(sum(block.number for block in blocks), 1)
    share = pieces / model.rounds(pieces)
    costs = [(block.number, block.products(model)) for block in blocks]
    overhead_macs = round(most(costs, model.cores_assumed) * tile[summed] * share) - macs
    inner_loop_starts = sum(block.number * block.begins(model) for block in blocks)
    return Work(macs, round(begun * share), pieces, cost_class, overhead_macs, inner_loop_starts * sums)


def _blocks(
    rows: list[Run], columns: list[Run], planes: int, channels: int, in_line: int, model: KernelModel
) -> Iterator[_Blocks]:
    """The blocks of each rectangle in the order in which they are dealt out."""
    fours, rest = divmod(channels, model.block)
    for height, row_taps in rows:
        for width, column_taps in columns:
            for count, size in ((fours, model.block), (rest, 1)):
                groups, four = planes * count, height * width // model.block
                four = four if use_4x_blocks(groups * four, model) else 0
                single = height * width - model.block * four
                for number, outputs in ((groups * single, 1), (groups * four, model.block)):
                    if number:
                        line = _is_in_line(size, outputs, column_taps, in_line, model)
                        yield _Blocks(number, size, outputs, row_taps, column_taps, line)


def _is_in_line(channels: int, outputs: int, taps: int, most: int, model: KernelModel) -> bool:
    """Whether a row of taps is code without a loop in a block, where it may be one of up to so many.

    In blocks of four by four it is a row of just so many, of three or two; a single sum has none.
    """
    if channels * outputs == model.block**2:
        return taps == most <= SIDE
    least = min(SIDE, most) if channels == model.block else 2
    return least <= taps <= most and channels * outputs > 1


def _row_blocks(rows: list[Run], columns: list[Run], channels: int, model: KernelModel) -> Iterator[_Blocks]:
    """The blocks of single taps, of so many fours of channels; none where there is no tap."""
    for height, row_taps in rows:
        for width, column_taps in columns:
            if row_taps * column_taps == 0:
                continue
            four = width // model.block if use_4x_blocks(channels * height * (width // model.block), model) else 0
            if channels * height * four:
                yield _Blocks(channels * height * four, model.block, model.block, 1, 1)
            if width > model.block * four:
                yield _Blocks(channels * height * (width - model.block * four), model.block, 1, 1, 1)


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
    def inner_loop_starts(self) -> list[Run]:
        """Neighbours with all their taps; those at the borders are alone."""
        found: list[Run] = []
        for phase in range(self.phases):
            taps, whole = self.taps[phase :: self.apart], self.whole[phase]
            inside = taps.count(whole)
            found += [(inside, whole)] * (inside > 0) + [(1, count) for count in taps if count < whole]
        return found


def met_taps(access: Access, operand: str, tile: Tile) -> tuple[Met, Met]:
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


# Depthwise 3x3 kernels, whose planes may be cut into strips of columns.

WIDTHS = "widths"
"""Cost class of strips of two widths, four columns and what is left of them: each width has code of its own."""


def strip_class(access: Access, operand: str, tile: Tile, model: KernelModel) -> str:
    """WIDTHS, or none."""
    columns = tile[window_axes(access.operand(operand))[1].dim]
    return WIDTHS if columns > model.block and columns % model.block else ""


def strip_work(access: Access, operand: str, tile: Tile, cost_class: str, model: KernelModel) -> Work:
    """Nine multiply-accumulates for each element of the result, and the rows of each strip with its beginning.

    Cores take turns at planes, or where these are few at halves or quarters of their rows: the core with most decides.
    """
    rows, columns = (tile[axis.dim] for axis in window_axes(access.operand(operand)))
    planes, strips = tile["n"] * tile["g"], model.blocks(columns)
    splits = plane_splits(planes, model)
    longest = -(-rows // splits)
    lengths = [max(min(longest, rows - begin), 0) for begin in range(0, longest * splits, longest)]
    pieces, macs = planes * splits, planes * rows * columns * SIDE**2
    share = pieces / model.rounds(pieces)
    products, elements, inner_loop_starts = (
        round(most(_with_rows(planes, lengths, costs), model.cores_assumed) * share)
        for costs in (
            [columns * SIDE**2 * length for length in lengths],
            [model.strip_setup_elements + strips * (length + model.strip_setup_elements) for length in lengths],
            [strips] * splits,
        )
    )
    return Work(macs, elements, pieces, cost_class, products - macs, inner_loop_starts)


def _with_rows(planes: int, lengths: Sequence[int], costs: Sequence[int]) -> list[tuple[int, float]]:
    """Return for each part of all planes their number and its cost, which is nothing for a part without rows."""
    return [(planes, cost if length else 0) for length, cost in zip(lengths, costs, strict=True)]


# 3x3 kernels that compute whole rows, borders in the same blocks.


def fours_work(
    access: Access, operand: str, tile: Tile, channels: str, macs: int, cost_class: str, model: KernelModel
) -> Work:
    """The work over `operand` of a tile by four neighbours in a row, each with three taps in a row.

    Results have these `channels`, a dim's name.

    The core with most of it decides: blocks are dealt out one by one, and those at a border have fewer taps. `macs`
    counts all taps, also those in padding. An inner loop begins for each block and each block of its sum. Elements are
    outputs, and what it takes to begin each plane of neighbours.
    """
    summed = "c" if channels == "m" else "m"
    each = tile["n"] * tile["g"] * model.blocks(tile[channels])
    rows, columns = met_taps(access, operand, tile)
    met = math.prod(most_met(axis) for axis in window_axes(access.operand(operand)))
    planes, pieces = rows.phases * columns.phases, model.blocks(each * len(rows.taps) * len(columns.taps))
    share = pieces / model.rounds(pieces)
    taps = _most_taps(rows, columns, each, model.block, model.cores_assumed)
    overhead_macs = round(model.block * taps * tile[summed] * share) - macs
    sums = -(-tile[summed] // block_of(access.dim(summed).size, met))
    elements = model.block**2 * pieces + round(model.plane_setup_elements * (planes - 1) * share)
    return Work(macs, elements, pieces, cost_class, overhead_macs, pieces * sums)


@lru_cache(4096)
def _most_taps(rows: Met, columns: Met, channels: int, block: int, cores: int) -> float:
    """The taps of all blocks of the core with the most.

    Blocks are dealt out in turn, plane by plane: fours at the first column, those between, those at the last; of these
    row by row.
    """
    dealt: list[tuple[int, float]] = []
    for down in range(rows.phases):
        for along in range(columns.phases):
            line = columns.taps[along :: columns.apart]
            fours = [sum(line[i : i + block]) for i in range(0, len(line), block)]
            whole = block * max(line)
            begin, end = int(fours[0] < whole), len(fours) - int(len(fours) > 1 and fours[-1] < whole)
            for run in (fours[:begin], fours[begin:end], fours[end:]):
                dealt += [(channels * len(run), row * run[0]) for row in rows.taps[down :: rows.apart] if run]
    return most(dealt, cores)


# Cost models by name.


def cost_models_over(
    operand: str, channels: str, macs: Callable[[Access, Tile], int], **in_line: int
) -> dict[str, CostModel]:
    """The ways of a layer with windows over an operand, X or dY, whose results have these `channels`, a dim's name.

    `macs` counts the multiply-accumulates of a tile. Each of `in_line` is a way by rectangles, with rows of up to so
    many taps without a loop.
    """

    def planes(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        return strip_work(access, operand, tile, class_with_epilogue("", node, access), model)

    def strips(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        cost_class = class_with_epilogue(strip_class(access, operand, tile, model), node, access)
        return strip_work(access, operand, tile, cost_class, model)

    def lines(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        return line_work(access, operand, tile, class_with_epilogue("", node, access), model)

    def cost_model(work: Callable[..., Work], *more: int) -> CostModel:
        return lambda node, access, tile, model: work(
            access, operand, tile, channels, macs(access, tile), class_with_epilogue("", node, access), model, *more
        )

    whole = {"fours": fours_work, "matrix": matrix_work, "single": single_tap_work}
    rows = {name: cost_model(rectangle_work, taps) for name, taps in in_line.items()}
    return {
        "planes": planes,
        "strips": strips,
        "lines": lines,
        **{name: cost_model(work) for name, work in whole.items()},
        **rows,
    }


def _macs(access: Access, tile: Tile) -> int:
    return math.prod(tile.values()) * math.prod(access.operand("w").view[3:])


def _in_blocks(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """Cores share blocks of channels by neighbours in a row."""
    outputs = tile["n"] * tile["g"] * tile["m"] * tile["oh"] * tile["ow"]
    return Work(_macs(access, tile), outputs, model.squares(outputs), class_with_epilogue("", node, access))


def _gradient_macs(access: Access, tile: Tile) -> int:
    rows, columns = (a for a in access.operand("dy").axes if isinstance(a, Reach))
    products = math.prod(tile.values()) * math.prod(access.operand("w").view[3:])
    return round(products / (rows.stride * columns.stride))


@register_split
class ConvSplit(WorkSplit):
    """Convolutions."""

    kernel = "conv_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = {
        **cost_models_over("x", "m", _macs, threes=3, fives=5),
        "blocks": _in_blocks,
    }

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """A multiply-accumulate per tap, channel and output; cores share blocks of channels at an output."""
        _, m, c, *kernel = access.operand("w").view
        rows, columns = (a for a in access.operand("x").axes if isinstance(a, Window))
        cost_class = "" if m * c > 1 else layer_class(m, c, (kernel[0], kernel[1]), (rows.stride, columns.stride))
        return rectangle_work(
            access, "x", tile, "m", _macs(access, tile), class_with_epilogue(cost_class, node, access), model
        )


@register_split
class ConvGradXSplit(WorkSplit):
    """Gradients of convolutions by X."""

    kernel = "conv_grad_x_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = cost_models_over(
        "dy", "c", _gradient_macs, halves=2, threes=3, fives=5
    )

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """A multiply-accumulate per output channel and tap that met the input; cores share blocks of channels."""
        _, m, c, *kernel = access.operand("w").view
        rows, columns = (a for a in access.operand("dy").axes if isinstance(a, Reach))
        cost_class = "" if m * c > 1 else layer_class(m, c, (kernel[0], kernel[1]), (rows.stride, columns.stride))
        return rectangle_work(
            access, "dy", tile, "c", _gradient_macs(access, tile), class_with_epilogue(cost_class, node, access), model
        )
