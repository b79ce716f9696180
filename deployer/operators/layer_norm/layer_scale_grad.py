"""LayerScaleGrad: per column the sum of dY (X - mean) inv_std, the gradient of layer normalization's scale."""

from typing import ClassVar

from deployer.core.declarations import Sums
from deployer.core.operator import Array, register
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerScaleGrad(Layerwise):
    """dY, X, mean, inv_std to dscale."""

    name = "LayerScaleGrad"
    layout: ClassVar[dict[str, str]] = {"dy": "rc", "x": "rc", "mean": "r", "inv_std": "r", "dscale": "c"}
    kernel = layer_kernel("layer_scale_grad_f32", layout, ("dscale",), sums=True)
    sums = Sums(("r",))

    def formula(self, *operands: Array) -> tuple[Array, ...]:
        """The sum of dY (X - mean) inv_std over the rows."""
        dy, x, mean, inv_std = operands
        return ((dy * ((x - mean) * inv_std)).sum(0, dtype=x.dtype),)
