"""Work splits of gradients of convolutions by W, and of SGD fused into them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access, Window
from deployer.core.ir import Node
from deployer.core.kernel import Work
from deployer.core.kernel_model import KernelModel
from deployer.kernel_models.window_splits import (
    DEPTHWISE,
    POINTWISE,
    SIDE,
    STRIDED,
    is_profitable,
    layer_class,
    met_taps,
)
from deployer.operators.base.work_split import CostModel, Tile, WorkSplit, register_split
from deployer.operators.products.convolution_grad import is_single_plane

TAPS = "taps"
"""Cost class of a gradient of W that takes single taps as it takes rows of them."""
ALONE = "alone"
"""Cost class of a gradient of W by rows of three taps of single outputs."""
BY_ROWS = "by_rows"
"""Cost class of a gradient of W of a depthwise layer whose rows of taps are dealt out."""


def weight_blocks(groups: int, outputs: int, channels: int, rows: int, model: KernelModel) -> tuple[int, int]:
    """In the gradient of W of a group: blocks of four outputs of a channel, and outputs that are blocks by themselves.

    Where blocks of four, one for each of the `rows` of taps, are too few for the cores, all outputs are by themselves.
    """
    fours = outputs // model.block
    blocks = groups * fours * channels * rows
    if not is_profitable(model.weight_blocks_limit, blocks, model.block * blocks, model):
        fours = 0
    return fours * channels, (outputs - model.block * fours) * channels


def _block_work(access: Access, tile: Tile, blocks: int, single: int, cost_class: str, model: KernelModel) -> Work:
    """The work of so many blocks for each row of taps of a group, with losses of so many `single` outputs.

    Runs are such blocks, once for each block of the sum.
    """
    kh, rows = access.operand("grad").view[3], tile["n"] * tile["oh"]
    macs, inside = math.prod(tile.values()), met_taps(access, "x", tile)[0].share(kh)
    inner_loop_starts = tile["g"] * blocks * kh
    overhead_macs = macs // tile["m"] * single // model.remainder_divisor - (macs - round(macs * inside))
    regions = math.prod(-(-tile[name] // access.dim(name).quantum) for name in ("n", "oh", "ow"))
    return Work(
        macs,
        round(inner_loop_starts * rows * inside),
        inner_loop_starts,
        cost_class,
        overhead_macs,
        inner_loop_starts * (1 if is_single_plane(access) else regions),
    )


def _in_squares(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """Cores share squares of outputs and channels of a single tap."""
    blocks = model.blocks(model.blocks(tile["m"]) * tile["c"])
    return _block_work(access, tile, blocks, tile["m"] % model.block, "", model)


def _in_rows(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """Cores share blocks of outputs by taps."""
    weights = tile["g"] * tile["m"] * tile["c"] * tile["kh"] * tile["kw"]
    return Work(math.prod(tile.values()), weights, model.squares(weights), "")


def _in_planes(node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
    """Cores share whole planes of a depthwise layer."""
    return Work(
        math.prod(tile.values()), tile["g"] * tile["n"] * tile["oh"], tile["g"], "", inner_loop_starts=tile["g"]
    )


@register_split
class ConvGradWSplit(WorkSplit):
    """Gradients of convolutions by W."""

    kernel = "conv_grad_w_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = {"squares": _in_squares, "rows": _in_rows, "planes": _in_planes}

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """A multiply-accumulate per weight and element of a plane of dY; cores share blocks of a row of weights."""
        _, m, c, kh, kw = access.operand("grad").view
        high, wide = (a.stride for a in access.operand("x").axes if isinstance(a, Window))
        cost_class = layer_class(m, c, (kh, kw), (high, wide))
        cost_class = {POINTWISE: TAPS, STRIDED: TAPS, DEPTHWISE: BY_ROWS}.get(cost_class, cost_class)
        fours, alone = weight_blocks(tile["g"], tile["m"], tile["c"], kh, model)
        if m * c > 1 and kw == SIDE and not fours:
            cost_class = ALONE
        single = 0 if m == c == 1 else alone // tile["c"]
        return _block_work(access, tile, fours + alone, single, cost_class, model)


STEP_WORK = 2
"""Multiply-accumulates that the step of a weight is worth: it is loaded, and computed once more."""


def _stepped(work: Work, tile: Tile) -> Work:
    weights = tile["g"] * tile["m"] * tile["c"] * tile["kh"] * tile["kw"]
    return replace(work, overhead_macs=work.overhead_macs + STEP_WORK * weights)


def _stepping(cost_model: CostModel) -> CostModel:
    return lambda node, access, tile, model: _stepped(cost_model(node, access, tile, model), tile)


@register_split
class ConvSGDSplit(ConvGradWSplit):
    """Steps of convolutions' weights."""

    kernel = "conv_sgd_f32"
    cost_models: ClassVar[Mapping[str, CostModel]] = {
        name: _stepping(cost_model) for name, cost_model in ConvGradWSplit.cost_models.items()
    }

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """The work of the gradient, and of a step per weight."""
        return _stepped(super().work(node, access, tile, model), tile)
