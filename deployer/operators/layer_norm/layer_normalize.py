"""LayerNormalize: Y = (X - mean) inv_std scale + bias with given statistics, the last step of layer normalization."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from deployer.core.operator import Array, Sample, register
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerNormalize(Layerwise):
    """X, mean, inv_std, scale[, bias] to Y."""

    name = "LayerNormalize"
    layout: ClassVar[dict[str, str]] = {"x": "rc", "mean": "r", "inv_std": "r", "scale": "c", "bias": "c", "y": "rc"}
    kernel = layer_kernel("layer_normalize_f32", layout, ("y",))

    def formula(self, *operands: Array) -> tuple[Array, ...]:
        """(X - mean) inv_std scale + bias."""
        x, mean, inv_std, scale, *bias = operands
        return ((x - mean) * inv_std * scale + (bias[0] if bias else 0),)

    def samples(self) -> Iterator[Sample]:
        """Each form, and without bias."""
        for sample in super().samples():
            yield sample
            yield replace(sample, label=f"{sample.label}_unbiased", inputs=sample.inputs[:4])
