"""LayerNormalize: Y = (X - mean) inv_std scale + bias with given statistics, the last step of layer normalization."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.declarations import ACTIVATION
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, register
from deployer.operators.finishing import RELU, RELU_SCALAR, finished, relu_args
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerNormalize(Layerwise):
    """X, mean, inv_std, scale[, bias] to Y; `activation` says that Relu follows."""

    name = "LayerNormalize"
    layout: ClassVar[dict[str, str]] = {"x": "rc", "mean": "r", "inv_std": "r", "scale": "c", "bias": "c", "y": "rc"}
    kernel = layer_kernel("layer_normalize_f32", layout, ("y",), RELU_SCALAR[0])

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """(X - mean) inv_std scale + bias."""
        x, mean, inv_std, scale, *bias = operands
        return ((x - mean) * inv_std * scale + (bias[0] if bias else 0),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then Relu where it is fused."""
        (y,) = super().reference(node, inputs)
        return (finished(node, y),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether Relu follows."""
        return relu_args(node)

    def samples(self) -> Iterator[Sample]:
        """Each form, without bias, and with Relu."""
        for sample in super().samples():
            yield sample
            yield replace(sample, label=f"{sample.label}_unbiased", inputs=sample.inputs[:4])
            yield replace(sample, label=f"{sample.label}_relu", attrs={**sample.attrs, ACTIVATION: RELU})
