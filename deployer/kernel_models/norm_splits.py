"""Work splits of normalization: channels, elements of an image, columns of rows over cores."""

import math
from dataclasses import replace

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.kernel import Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import execution_of, operator_of
from deployer.operators.base.epilogue import class_with_epilogue
from deployer.operators.base.work_split import Tile, WorkSplit, register_split
from deployer.operators.normalization.layer_norm_steps import bias_sum

CHANNELS, ELEMENTS, IMAGES, FEW = "channels", "elements", "images", "few"
"""Forms: whole channels or elements dealt out; sums over images or a part of one; channels for half of the cores."""


class ChannelStepSplit(WorkSplit):
    """Steps along the elements of one image's channel."""

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """A multiply-accumulate per element and one more operation per run of them.

        Cores take whole channels, except that where nothing is summed and channels cannot be dealt out evenly, each
        takes as many elements, from its own place on. A sum over images, or a part of one, has code of its own; where
        channels are few, cores do not share what computes.
        """
        sums, count = execution_of(operator_of(node)).sums, math.prod(tile.values())
        inner_loop_starts = count // tile["s"]
        if not sums:
            if tile["n"] == 1 and tile["c"] % model.cores_assumed == 0:
                return Work(count, inner_loop_starts, tile["c"], CHANNELS)
            return Work(count, inner_loop_starts + model.cores_assumed, count, ELEMENTS)
        is_partial = any(tile[d] < access.dim(d).size for d in sums.dims)
        if is_partial and sums.blocks(access):
            inner_loop_starts += inner_loop_starts * model.partial_sum_starts
        cost_class = IMAGES if is_partial or tile["n"] > 1 else FEW if 2 * tile["c"] <= model.cores_assumed else ""
        return Work(count, inner_loop_starts, tile["c"], cost_class)


@register_split
class ChannelGradSumsSplit(ChannelStepSplit):
    """Gradients of scale and bias."""

    kernel = "channel_grad_sums_f32"


@register_split
class ChannelMomentsSplit(ChannelStepSplit):
    """Means and deviations."""

    kernel = "channel_moments_f32"


@register_split
class ChannelVarianceSplit(ChannelStepSplit):
    """Variances."""

    kernel = "channel_variance_f32"


@register_split
class ChannelNormGradSplit(ChannelStepSplit):
    """Gradients by X."""

    kernel = "channel_norm_grad_f32"


@register_split
class ChannelNormalizeSplit(ChannelStepSplit):
    """Normalized elements."""

    kernel = "channel_normalize_f32"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """With Relu another loop runs."""
        plain = super().work(node, access, tile, model)
        return replace(plain, cost_class=class_with_epilogue(plain.cost_class, node, access))


@register_split
class LayerScaleGradSplit(WorkSplit):
    """Gradients of layer normalization's scale."""

    kernel = "layer_scale_grad_f32"

    def work(self, node: Node, access: Access, tile: Tile, model: KernelModel) -> Work:
        """Two operations per element; cores share columns or, where each core has some, by four neighbours.

        Both have a cost class of their own, and so has each with the second sum. Each sum takes time to begin and end.
        """
        columns, fours = tile["c"], tile["c"] // model.block
        is_wide = fours >= model.cores_assumed
        parallel = fours + columns % model.block if is_wide else columns
        cost_class = "_".join(filter(None, ("fours" if is_wide else "", "biased" if self.is_biased(node) else "")))
        count = tile["r"] * columns
        return Work(count, count, parallel, cost_class, inner_loop_starts=parallel)

    def is_biased(self, node: Node) -> bool:
        """Whether the kernel makes a second sum."""
        return bool(bias_sum(node))


@register_split
class RmsScaleGradSplit(LayerScaleGradSplit):
    """Gradients of an RMS norm's scale."""

    kernel = "rms_scale_grad_f32"

    def is_biased(self, node: Node) -> bool:
        """Whether the kernel makes a second sum: never."""
        return False
