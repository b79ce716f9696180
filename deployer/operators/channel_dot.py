"""ChannelDot: the sum of dY (X - mean) inv_std per channel, the gradient of batch normalization's scale."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.channels import Step
from deployer.inputs import arrays, normal
from deployer.ir import Node
from deployer.normalization import channel_kernel, per_channel, sum_axes
from deployer.operator import Array, Sample, register, rng


@register
class ChannelDot(Step):
    """dY and X of one shape, mean and inv_std of C elements each."""

    name = "ChannelDot"
    kernel = channel_kernel("channel_dot_f32", ("dy", "x", "mean", "inv_std"), "y", ("dy", "x"), "first", "last")
    wide = 2
    reduces = True

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula."""
        dy, x, mean, inv_std = arrays(inputs, 4)
        total = (dy * (x - per_channel(mean, x.ndim))).sum(sum_axes(x.ndim), dtype=x.dtype)
        return (np.asarray(total * inv_std),)

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows."""
        r = rng(68)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            wide = (normal(r, *shape), normal(r, *shape))
            yield Sample(label, (*wide, normal(r, shape[1]), normal(r, shape[1])), onnx=False)
