"""LayerNormalizeGrad: layer normalization's dX from the sums of LayerSums."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.access import Access
from deployer.core.ir import Node
from deployer.core.operator import ArgValue, Array, Sample, register
from deployer.operators.finishing import GATE, GATED, own_args, own_gate
from deployer.operators.layer_norm.rows_by_columns import Layerwise, layer_kernel


@register
class LayerNormalizeGrad(Layerwise):
    """dX = inv_std (dY scale - total / M - (X - mean) inv_std dot / M), with M columns.

    Fusion sets the attribute `gated` where X is Y of a Relu whose gradient follows.
    """

    name = "LayerNormalizeGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "total": "r", "dot": "r"},
        **{"dx": "rc"},
    }
    kernel = layer_kernel("layer_norm_grad_f32", layout, ("dx",), "count", GATED)
    own: ClassVar[dict[str, tuple[int, str]]] = {GATE: (1, GATED)}

    def formula(self, *operands: Array) -> tuple[Array, ...]:
        """inv_std (dY scale - total / M - (X - mean) inv_std dot / M)."""
        dy, x, scale, mean, inv_std, total, dot = operands
        count = x.dtype.type(x.shape[1])
        return (inv_std * (dy * scale - total / count - (x - mean) * (inv_std * dot / count)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, then the fused gate."""
        (dx,), x = super().reference(node, inputs), inputs[1]
        assert x is not None
        return (own_gate(node, dx, x),)

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Whether the result is gated by X."""
        return own_args(node)

    def samples(self) -> Iterator[Sample]:
        """Each form, without and with a gate."""
        for sample in super().samples():
            yield sample
            yield replace(sample, label=f"{sample.label}_gated", attrs={**sample.attrs, GATED: 1})
