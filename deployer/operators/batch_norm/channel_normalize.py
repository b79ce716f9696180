"""ChannelNormalize: Y = (X - mean) * (inv_std * scale) + B per channel; a step of batch normalization."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION
from deployer.core.forms import Form
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, Work, register, rng
from deployer.operators.batch_norm.channel_costs import Step
from deployer.operators.batch_norm.channels import channel_kernel, far, per_channel
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, finished_form, relu_args
from deployer.operators.inputs import arrays, normal


@register
class ChannelNormalize(Step):
    """X[N, C, ...] with scale, B, mean and inv_std of C elements each; `activation` says that Relu follows."""

    name = "ChannelNormalize"
    custom = Form((5, 5), (1, 1))
    kernel = channel_kernel(
        "channel_normalize_f32", ("x", "scale", "bias", "mean", "inv_std"), ("y",), ("x", "y"), RELU_SCALAR[0]
    )

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """(X - mean) * (inv_std * scale) + B, then Relu where it is fused."""
        x, scale, bias, mean, inv_std = arrays(inputs, 5)
        centre, factor, shift = (per_channel(v, x.ndim) for v in (mean, inv_std * scale, bias))
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
            yield Sample(label, inputs, onnx=False)
            yield Sample(f"{label}_relu", inputs, {ACTIVATION: RELU}, onnx=False)
        x, mean, inv_std = far(r)
        inputs = (x, normal(r, 3), normal(r, 3), mean, inv_std)
        yield Sample("far", inputs, onnx=False)
        yield Sample("far_relu", inputs, {ACTIVATION: RELU}, onnx=False)
