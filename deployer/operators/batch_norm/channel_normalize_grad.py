"""ChannelNormalizeGrad: batch normalization's dX, where mean and variance depend on X."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Centre
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, far, per_channel, rest_of, sum_axes
from deployer.operators.finishing import GATE, GATED, own_args, own_gate
from deployer.operators.inputs import arrays, normal


@register
class ChannelNormalizeGrad(Step):
    """dX = scale inv_std (dY - dbias / M - ((X - mean) inv_std + rest) dscale / M), with M elements per channel.

    Fusion sets the attribute `gated` where X is Y of a Relu whose gradient follows.
    """

    name = "ChannelNormalizeGrad"
    kernel = channel_kernel(
        "channel_norm_grad_f32",
        ("dy", "x", "scale", "mean", "inv_std", "dscale", "dbias", "rest"),
        ("dx",),
        ("dy", "x", "dx"),
        "inverse_count",
        GATED,
    )
    wide = 2
    centre = Centre(mean=3, inv_std=4, rest=7)
    own: ClassVar[dict[str, tuple[int, str]]] = {GATE: (1, GATED)}

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Whether the result is gated by X."""
        return own_args(node)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """scale inv_std (dY - dbias / M - ((X - mean) inv_std + rest) dscale / M)."""
        dy, x, scale, mean, inv_std, dscale, dbias, *rest = arrays(inputs, 8)
        count = x.dtype.type(x.size // x.shape[1])
        values = (mean, scale * inv_std, dbias / count, inv_std * dscale / count)
        centre, factor, shift, slope = (per_channel(v, x.ndim) for v in values)
        shift = shift + rest_of(rest, x.ndim) * per_channel(dscale, x.ndim) / count
        return (own_gate(node, np.asarray(factor * (dy - shift - (x - centre) * slope)), x),)

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows, without and with a gate; means far larger than the deviation."""
        r = rng(69)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            wide = (normal(r, *shape), normal(r, *shape))
            inputs = (*wide, *(normal(r, shape[1]) for _ in range(5)))
            yield Sample(label, inputs, onnx=False)
            yield Sample(f"{label}_gated", inputs, {GATED: 1}, onnx=False)
            yield Sample(f"{label}_rest", (*inputs, normal(r, shape[1])), onnx=False)
        x, mean, inv_std = far(r)
        centred = (x - per_channel(mean, x.ndim)) * per_channel(inv_std, x.ndim)
        dy = normal(r, *x.shape) + centred
        dscale, dbias = ((dy * part).sum(sum_axes(x.ndim)) for part in (centred, np.float32(1)))
        yield Sample("far", (dy, x, normal(r, 3), mean, inv_std, dscale, dbias), onnx=False)
