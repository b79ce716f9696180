"""ChannelNormalizeGrad: batch normalization's dX, where mean and variance depend on X."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, per_channel
from deployer.operators.inputs import arrays, normal


@register
class ChannelNormalizeGrad(Step):
    """dX = scale inv_std (dY - dbias / M - (X - mean) inv_std dscale / M), with M elements per channel."""

    name = "ChannelNormalizeGrad"
    kernel = channel_kernel(
        "channel_norm_grad_f32",
        ("dy", "x", "scale", "mean", "inv_std", "dscale", "dbias"),
        ("dx",),
        ("dy", "x", "dx"),
        "inverse_count",
    )
    wide = 2

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """scale inv_std (dY - dbias / M - (X - mean) inv_std dscale / M)."""
        dy, x, scale, mean, inv_std, dscale, dbias = arrays(inputs, 7)
        count = x.dtype.type(x.size // x.shape[1])
        values = (mean, scale * inv_std, dbias / count, inv_std * dscale / count)
        centre, factor, shift, slope = (per_channel(v, x.ndim) for v in values)
        return (np.asarray(factor * (dy - shift - (x - centre) * slope)),)

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows."""
        r = rng(69)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            wide = (normal(r, *shape), normal(r, *shape))
            yield Sample(label, (*wide, *(normal(r, shape[1]) for _ in range(5))), onnx=False)
