"""ChannelVariance: the biased variance of each channel, of which batch normalization keeps a running mean."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.declarations import Sums
from deployer.core.ir import Node
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, per_channel, sum_axes
from deployer.operators.inputs import arrays, normal


@register
class ChannelVariance(Step):
    """X[N, C, ...] and the means of its channels to var[C]."""

    name = "ChannelVariance"
    kernel = channel_kernel("channel_variance_f32", ("x", "mean"), ("y",), ("x",), "inverse_count", sums=True)
    sums = Sums(("n", "s"))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean of (X - mean)^2."""
        x, mean = arrays(inputs, 2)
        return (np.square(x - per_channel(mean, x.ndim)).mean(sum_axes(x.ndim), dtype=x.dtype),)

    def samples(self) -> Iterator[Sample]:
        """A batch, and one image."""
        r = rng(66)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "long": (3, 2, 11, 13)}.items():
            yield Sample(label, (normal(r, *shape), normal(r, shape[1])), onnx=False)
