"""Work splits of pooling and its gradients: rows of windows, and squares of neighbours with loops of their own."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from deployer.core.access import Access, Reach, Window, box_shape
from deployer.core.ir import Node
from deployer.core.kernel import Work
from deployer.core.kernel_model import KernelModel
from deployer.operators.base.epilogue import GATED, gate_class
from deployer.operators.base.work_split import Tile, WorkSplit, register_split

SQUARES: dict[tuple[int, ...], str] = {(2, 2): "pairs", (3, 3): "nines"}


def window_class(node: Node) -> str:
    """Cost class of windows for which kernels have loops of their own; empty for others."""
    is_dense = set(node.attr_ints("dilations", (1,))) == {1}
    return SQUARES.get(node.attr_ints("kernel_shape", ()), "") if is_dense else ""


@register_split
class MaxPoolSplit(WorkSplit):
    """Maxima of windows."""

    kernel = "max_pool_f32"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """One operation per element of a window; rows are what cores share."""
        window = math.prod(a.kernel for a in access.operand("x").axes if isinstance(a, Window))
        rows = tile["c"] * tile["h"]
        elements = math.prod(tile.values()) * window
        return Work(macs=0, elements=elements, parallel=rows, inner_loop_starts=rows, cost_class=window_class(node))


@register_split
class IntegerMaxPoolSplit(MaxPoolSplit):
    """Maxima of windows of integers."""

    kernel = "max_pool_i32"


@register_split
class AvgPoolSplit(MaxPoolSplit):
    """Means of windows."""

    kernel = "avg_pool_f32"


class PoolGradSplit(WorkSplit):
    """Gradients of pooling."""

    starts_in_rows: ClassVar[bool] = True
    """Whether squares of a tile with a part of the columns are computed a row at a time, as those of all columns."""

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """One operation per element of a window, and one per element of dX; rows are what cores share, those of squares
        that lie apart together.

        Elements of squares that reach over a border are `overhead_macs`: they go one by one, and so do those in rows of
        squares that two cores have a part of, and `starts_in_rows` decides of a tile that has a part of the columns.
        """
        window = math.prod(node.attr_ints("kernel_shape", ()))
        box = box_shape(access.operand("dy"), tile)
        is_whole = self.starts_in_rows or tile["w"] == access.dim("w").size
        rows, cost_class = box[0] * box[1], window_class(node) if is_whole else ""
        overhead_macs = window * (math.prod(box) - box[0] * _whole(access, tile, box)) if cost_class else 0
        elements = math.prod(box) * window - overhead_macs + math.prod(tile.values())
        side, step = node.attr_ints("kernel_shape", ())[0], node.attr_ints("strides", (1,))[0]
        together = step if cost_class and step >= side else 1
        if cost_class and together == 1 and tile["c"] % model.cores_assumed:
            overhead_macs += 2 * model.cores_assumed * box[2] * window
        return Work(0, elements, tile["c"] * -(-tile["h"] // together), cost_class, overhead_macs, rows)


@register_split
class AvgPoolGradSplit(PoolGradSplit):
    """Gradients of means."""

    kernel = "avg_pool_grad_f32"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """That of PoolGrad, with a cost class of its own where there is a gate."""
        plain = super().work(node, access, tile, model)
        return replace(plain, cost_class="_".join(filter(None, (plain.cost_class, gate_class(access)))))


def _whole(access: Access, tile: Tile, box: Sequence[int]) -> int:
    """The windows of a plane of the tile's dY that reach over no border; a part of an axis is taken to have none."""
    found = 1
    for axis, count, seen in zip(access.operand("dy").axes[1:], access.operand("dy").view[1:], box[1:], strict=True):
        assert isinstance(axis, Reach)
        size = access.dim(axis.dim).size
        begins = [i * axis.stride - axis.pad for i in range(count)]
        over = sum(begin < 0 or begin + axis.kernel > size for begin in begins) if tile[axis.dim] == size else 0
        found *= seen - over
    return found


class _Along(NamedTuple):
    """The windows of a tile's dY along an axis, of `size` elements: those that reach over no border, those that are
    cut, and the ends where some are; the elements of all of them that lie inside."""

    size: int
    whole: int
    cut: int
    ends: int
    taps: int


def _along(access: Access, tile: Tile) -> list[_Along]:
    """Those of rows and of columns; a part of an axis is taken to have no border."""
    dy, found = access.operand("dy"), []
    for axis, count, seen in zip(dy.axes[1:], dy.view[1:], box_shape(dy, tile)[1:], strict=True):
        assert isinstance(axis, Reach)
        size, kernel = access.dim(axis.dim).size, axis.kernel
        begins = [i * axis.stride - axis.pad for i in range(count)] if tile[axis.dim] == size else []
        cut = [begin for begin in begins if begin < 0 or begin + kernel > size]
        taps = sum(min(begin + kernel, size) - max(begin, 0) for begin in cut)
        ends = int(any(begin < 0 for begin in cut)) + int(any(begin >= 0 for begin in cut))
        found.append(_Along(kernel, seen - len(cut), len(cut), ends, (seen - len(cut)) * kernel + taps))
    return found


@register_split
class MaxPoolGradSplit(PoolGradSplit):
    """Gradients of maxima."""

    kernel = "max_pool_grad_f32"
    starts_in_rows = False

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """That of PoolGrad, with a cost class of its own where X is a gate besides.

        Of squares that reach over a border the elements inside are searched, and are `overhead_macs`; runs are parts of
        rows of squares by one way: those at each end that reach over it, and those between.
        """
        plain = super().work(node, access, tile, model)
        if plain.cost_class:
            rows, columns = _along(access, tile)
            box = box_shape(access.operand("dy"), tile)
            cut = box[1] * box[2] - rows.whole * columns.whole
            taps = rows.taps * columns.taps - rows.whole * columns.whole * rows.size * columns.size
            row_starts = rows.whole * (1 + columns.ends) + rows.cut if columns.whole else box[1]
            overhead_macs = plain.overhead_macs - box[0] * (cut * rows.size * columns.size - taps)
            plain = replace(plain, overhead_macs=overhead_macs, inner_loop_starts=box[0] * row_starts)
        return replace(
            plain, cost_class=f"{plain.cost_class}_gated".lstrip("_") if node.attr_int(GATED, 0) else plain.cost_class
        )
