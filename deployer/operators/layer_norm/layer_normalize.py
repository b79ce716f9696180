"""LayerNormalize: Y = ((X - mean) inv_std + rest) scale + bias by given statistics; ends layer normalization."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION, Centre
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, register
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, relu_args
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerNormalize(Layerwise):
    """X, mean, inv_std, scale[, bias, rest] to Y; `activation` says that Relu follows."""

    name = "LayerNormalize"
    layout: ClassVar[dict[str, str]] = {
        **{"x": "rc", "mean": "r", "inv_std": "r", "scale": "c", "bias": "c", "rest": "r"},
        **{"y": "rc"},
    }
    kernel = layer_kernel("layer_normalize_f32", layout, ("y",), RELU_SCALAR[0])
    centre = Centre(mean=1, inv_std=2, rest=5)

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """((X - mean) inv_std + rest) scale + bias."""
        x, mean, inv_std, scale, bias, rest = operands
        return (((x - mean) * inv_std + rest) * scale + bias,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then Relu where it is fused."""
        (y,) = super().reference(node, inputs)
        return (finished(node, y),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether Relu follows."""
        return relu_args(node)

    def samples(self) -> Iterator[Sample]:
        """Each form, without rest, without bias, and with Relu."""
        for sample in super().samples():
            *operands, bias, rest = sample.inputs
            yield sample
            yield replace(sample, label=f"{sample.label}_given", inputs=(*operands, bias))
            yield replace(sample, label=f"{sample.label}_unbiased", inputs=(*operands, None, rest))
            yield replace(sample, label=f"{sample.label}_relu", attrs={**sample.attrs, ACTIVATION: RELU})
