"""LayerNormalizeGrad: layer normalization's dX from the sums of LayerSums."""

from typing import ClassVar

from deployer.core.declarations import Centre
from deployer.core.ir import Node
from deployer.core.operator import Array, register
from deployer.operators.finishing import GATED
from deployer.operators.layer_norm.gated import GatedByX
from deployer.operators.layer_norm.rows_by_columns import layer_kernel


@register
class LayerNormalizeGrad(GatedByX):
    """dX = inv_std (dY scale - total / M - ((X - mean) inv_std + rest) dot / M), with M columns; rest may be absent."""

    name = "LayerNormalizeGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "total": "r", "dot": "r"},
        **{"rest": "r"},
        **{"dx": "rc"},
    }
    kernel = layer_kernel("layer_norm_grad_f32", layout, ("dx",), "count", GATED)
    centre = Centre(mean=3, inv_std=4, rest=7)

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """inv_std (dY scale - total / M - ((X - mean) inv_std + rest) dot / M)."""
        dy, x, scale, mean, inv_std, total, dot, rest = operands
        count = x.dtype.type(x.shape[1])
        return (inv_std * (dy * scale - (total + rest * dot) / count - (x - mean) * (inv_std * dot / count)),)
