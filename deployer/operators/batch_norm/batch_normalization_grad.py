"""BatchNormalizationGrad: dX, dscale and dbias of batch normalization with the batch's statistics."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng
from deployer.operators.batch_norm.channels import channel_type, per_channel, sum_axes
from deployer.operators.inputs import arrays, normal, operands


@register
class BatchNormalizationGrad(Operator):
    """dY, X, scale, mean, inv_std to dX, dscale, dbias; an output may be absent."""

    name = "BatchNormalizationGrad"
    custom = Form((5, 5), (1, 3), {"epsilon": "FLOAT"})
    no_gradient = "it is itself a gradient"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X for dX, and one element per channel for dscale and for dbias."""
        types = operands(node, inputs, 5)
        channels = channel_type(node, types, 2)
        return (types[1], channels, channels)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sums, then dX from them."""
        dy, x, scale, mean, inv_std = arrays(inputs, 5)
        axes, count = sum_axes(x.ndim), x.dtype.type(x.size // x.shape[1])
        centred = x - per_channel(mean, x.ndim)
        dbias = dy.sum(axes, dtype=x.dtype)
        dscale = (dy * centred).sum(axes, dtype=x.dtype) * inv_std
        values = (scale * inv_std, dbias / count, inv_std * dscale / count)
        factor, shift, slope = (per_channel(v, x.ndim) for v in values)
        return (np.asarray(factor * (dy - shift - centred * slope)), dscale, dbias)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One step computes both sums, a second one dX where the node has that output."""
        dy, x, scale, mean, inv_std = node.inputs
        dx, dscale, dbias = (*node.outputs, "", "")[:3]
        name = node.name
        dscale, dbias = dscale or f"{name}/dscale", dbias or f"{name}/dbias"
        nodes = [Node(f"{name}/sums", "ChannelGradSums", (dy, x, mean, inv_std), (dscale, dbias))]
        if dx:
            sources = (dy, x, scale, mean, inv_std, dscale, dbias)
            nodes.append(Node(name, "ChannelNormalizeGrad", sources, (dx,)))
        return nodes

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and dX alone."""
        r = rng(74)
        for label, shape, outputs in (("batch", (3, 4, 5, 2), 3), ("image", (1, 3, 4, 5), 3), ("dx", (4, 3, 5), 1)):
            x = normal(r, *shape)
            mean = x.mean(sum_axes(x.ndim), dtype=np.float32)
            inv_std = (1 / x.std(sum_axes(x.ndim))).astype(np.float32)
            yield Sample(label, (normal(r, *shape), x, normal(r, shape[1]), mean, inv_std), {}, outputs, onnx=False)
