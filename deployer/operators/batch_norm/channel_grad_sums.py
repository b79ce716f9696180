"""ChannelGradSums: the gradients of batch normalization's scale and bias."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.declarations import Centre, Sums
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import Array, Sample, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, per_channel, sum_axes
from deployer.operators.inputs import arrays, normal


@register
class ChannelGradSums(Step):
    """dY, X, mean, inv_std[, rest] to dscale[C], the sum of dY ((X - mean) inv_std + rest), and dbias[C], of dY."""

    name = "ChannelGradSums"
    custom = Form((4, 5), (1, 2))
    kernel = channel_kernel(
        "channel_grad_sums_f32",
        ("dy", "x", "mean", "inv_std", "rest"),
        ("dscale", "dbias"),
        ("dy", "x"),
        sums=True,
    )
    wide = 2
    sums = Sums(("n", "s"), together=2)
    centre = Centre(mean=2, inv_std=3, rest=4)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dscale and dbias."""
        dy, x, mean, inv_std, *rest = arrays(inputs, 5)
        axes = sum_axes(x.ndim)
        dot = (dy * (x - per_channel(mean, x.ndim))).sum(axes, dtype=x.dtype)
        total = np.asarray(dy.sum(axes, dtype=x.dtype))
        return (np.asarray(dot * inv_std + (rest[0] * total if rest else 0), x.dtype), total)

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows."""
        r = rng(68)
        for label, shape in {
            "batch": (3, 5, 4, 3),
            "image": (1, 5, 4, 6),
            "rows": (7, 3),
            "long": (3, 2, 11, 13),
        }.items():
            wide = (normal(r, *shape), normal(r, *shape))
            inputs = (*wide, normal(r, shape[1]), normal(r, shape[1]))
            yield Sample(label, inputs, outputs=2, onnx=False)
            yield Sample(f"{label}_rest", (*inputs, normal(r, shape[1])), outputs=2, onnx=False)
