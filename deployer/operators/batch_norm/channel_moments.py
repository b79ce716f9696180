"""ChannelMoments: mean, inverse standard deviation and rest of each channel; a step of batch normalization."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access, Dim
from deployer.core.declarations import Centre, Sums
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, Sample, Start, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import EPSILON, channel_kernel, per_channel, sum_axes
from deployer.operators.inputs import arrays, normal


@register
class ChannelMoments(Step):
    """X[N, C, ...] to mean[C], inv_std[C], one over the root of the biased variance plus `epsilon`, and rest[C].

    The rest is (mean - exact mean) inv_std, what the rounding of the mean lacks: (X - mean) inv_std + rest is normal.

    The variance needs the finished mean, so X is summed twice: `phase`, the outermost reduction, is 0 where a tile sums
    X less the channel's first element, which leaves of a large mean what the deviation is, and 1 where it sums
    (X - mean)^2. A tile of both phases has all of its channels and does one after the other.
    """

    name = "ChannelMoments"
    custom = Form((1, 1), (1, 3), {"epsilon": "FLOAT"})
    kernel = channel_kernel(
        "channel_moments_f32",
        ("x",),
        ("mean", "inv_std", "rest"),
        ("x",),
        *("phase", "image", "inverse_count", "epsilon"),
        sums=True,
    )
    sums = Sums(("n", "s"), results=3)
    centre = Centre(mean=0, inv_std=1, rest=2, makes=True)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean, 1 / sqrt(var + epsilon), and the rest."""
        x = arrays(inputs, 1)[0]
        mean = x.mean(sum_axes(x.ndim), dtype=x.dtype)
        centred = x - per_channel(mean, x.ndim)
        var, off = (v.mean(sum_axes(x.ndim), dtype=x.dtype) for v in (np.square(centred), centred))
        inv_std = 1 / np.sqrt(var + x.dtype.type(node.attr_float("epsilon", EPSILON)))
        return (np.asarray(mean), np.asarray(inv_std, x.dtype), np.asarray(-off * inv_std, x.dtype))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims c, phase, n and s; X does not depend on the phase."""
        plain = super().access(node, types)
        channels, *sums = plain.dims
        return replace(plain, dims=(channels, Dim("phase", 2, "reduction"), *sums))

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """The tile's first phase and first image, and epsilon."""
        epsilon = Const(node.attr_float("epsilon", EPSILON))
        return {"phase": Start("phase"), "image": Start("n"), "epsilon": epsilon}

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows; a mean far larger than the deviation."""
        r = rng(65)
        for label, shape in {
            "batch": (3, 5, 4, 3),
            "image": (1, 5, 4, 6),
            "rows": (7, 3),
            "many_rows": (97, 2),
        }.items():
            yield Sample(label, (normal(r, *shape),), {"epsilon": 0.01}, 3, onnx=False)
        yield Sample("far", (normal(r, 2, 3, 9, 5) + np.float32(30),), {}, 3, onnx=False)
