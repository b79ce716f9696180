"""ChannelNormalize: Y = ((X - mean) * inv_std + rest) * scale + B per channel; a step of batch normalization."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION, Centre
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, Work, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, far, per_channel, rest_of
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, finished_form, relu_args
from deployer.operators.inputs import arrays, normal


@register
class ChannelNormalize(Step):
    """X[N, C, ...] with scale, B, mean, inv_std[, rest] of C elements each; `activation` says that Relu follows."""

    name = "ChannelNormalize"
    custom = Form((5, 6), (1, 1))
    kernel = channel_kernel(
        "channel_normalize_f32", ("x", "scale", "bias", "mean", "inv_std", "rest"), ("y",), ("x", "y"), RELU_SCALAR[0]
    )
    centre = Centre(mean=3, inv_std=4, rest=5)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """(X - mean) * (inv_std * scale) + (rest * scale + B), then Relu where it is fused."""
        x, scale, bias, mean, inv_std, *rest = arrays(inputs, 6)
        centre, factor, shift = (per_channel(v, x.ndim) for v in (mean, inv_std * scale, bias))
        shift = shift + rest_of(rest, x.ndim) * per_channel(scale, x.ndim)
        return (finished(node, np.asarray((x - centre) * factor + shift)),)

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Whether Relu follows."""
        return relu_args(node)

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """With Relu another loop runs."""
        plain = super().work(node, access, tile)
        return replace(plain, form=finished_form(plain.form, node, access))

    def sweep(self) -> Iterator[Sample]:
        """Without and with Relu."""
        for sample in super().sweep():
            yield sample
            yield replace(sample, label=f"{sample.label} relu", attrs={**sample.attrs, ACTIVATION: RELU})

    def samples(self) -> Iterator[Sample]:
        """A batch, one image, and rows, without and with Relu; means far larger than the deviation."""
        r = rng(67)
        for label, shape in {"batch": (3, 5, 4, 3), "image": (1, 5, 4, 6), "rows": (7, 3)}.items():
            inputs = (normal(r, *shape), *(normal(r, shape[1]) for _ in range(4)))
            more = (*inputs, normal(r, shape[1]))
            yield Sample(label, inputs, onnx=False)
            yield Sample(f"{label}_relu", inputs, {ACTIVATION: RELU}, onnx=False)
            yield Sample(f"{label}_rest", more, onnx=False)
            yield Sample(f"{label}_rest_relu", more, {ACTIVATION: RELU}, onnx=False)
        x, mean, inv_std = far(r)
        inputs = (x, normal(r, 3), normal(r, 3), mean, inv_std)
        yield Sample("far", inputs, onnx=False)
        yield Sample("far_relu", inputs, {ACTIVATION: RELU}, onnx=False)
