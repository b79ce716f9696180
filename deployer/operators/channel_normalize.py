"""ChannelNormalize: Y = (X - mean) * (inv_std * scale) + B per channel; a step of batch normalization."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.channels import Step
from deployer.inputs import arrays, normal
from deployer.ir import Node
from deployer.normalization import channel_kernel, per_channel
from deployer.operator import Array, Sample, register, rng


@register
class ChannelNormalize(Step):
    """X[N, C, ...] with scale, B, mean and inv_std of C elements each."""

    name = "ChannelNormalize"
    kernel = channel_kernel("channel_normalize_f32", ("x", "scale", "bias", "mean", "inv_std"), "y", ("x", "y"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula."""
        x, scale, bias, mean, inv_std = arrays(inputs, 5)
        centre, factor, shift = (per_channel(v, x.ndim) for v in (mean, inv_std * scale, bias))
        return (np.asarray((x - centre) * factor + shift),)

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows."""
        r = rng(67)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            yield Sample(label, (normal(r, *shape), *(normal(r, shape[1]) for _ in range(4))), onnx=False)
