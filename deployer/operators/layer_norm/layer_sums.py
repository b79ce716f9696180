"""LayerSums: per row the sums of dY scale and of dY scale times normal X, which layer normalization's dX needs."""

from typing import ClassVar

from deployer.core.declarations import Centre, Sums
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerSums(Layerwise):
    """dY, X, scale, mean, inv_std[, rest] to two numbers per row."""

    name = "LayerSums"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "rest": "r"},
        **{"total": "r", "dot": "r"},
    }
    kernel = layer_kernel("layer_sums_f32", layout, ("total", "dot"), sums=True)
    sums = Sums(("c",), together=2)
    centre = Centre(mean=3, inv_std=4, rest=5)

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """Per row the sums of dY scale and of dY scale ((X - mean) inv_std + rest)."""
        dy, x, scale, mean, inv_std, rest = operands
        scaled = dy * scale
        dot = (scaled * (x - mean)).sum(1, keepdims=True, dtype=x.dtype) * inv_std
        total = scaled.sum(1, keepdims=True, dtype=x.dtype)
        return total, dot + rest * total
