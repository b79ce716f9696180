"""LayerInputGrad: layer normalization's dX by rows, which LayerSums and LayerNormalizeGrad compute in two walks."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from deployer.core.declarations import Centre
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, register
from deployer.operators.finishing import GATED
from deployer.operators.layer_norm.gated import GatedByX
from deployer.operators.layer_norm.layer_normalize_grad import LayerNormalizeGrad
from deployer.operators.layer_norm.layer_sums import LayerSums
from deployer.operators.layer_norm.rows_by_columns import layer_kernel
from deployer.operators.layer_norm.whole_rows import SCALARS, WholeRows, may_be_whole


@register
class LayerInputGrad(GatedByX, WholeRows):
    """dY, X, scale, mean, inv_std[, rest] to dX."""

    name = "LayerInputGrad"
    layout: ClassVar[dict[str, str]] = {
        **{"dy": "rc", "x": "rc", "scale": "c", "mean": "r", "inv_std": "r", "rest": "r"},
        **{"dx": "rc"},
    }
    kernel = layer_kernel("layer_input_grad_f32", layout, ("dx",), *SCALARS, GATED)
    centre = Centre(mean=3, inv_std=4, rest=5)
    joins = LayerNormalizeGrad.name
    walks = 2

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The formulas of both."""
        total, dot = (x.reshape(-1, 1) for x in LayerSums().formula(node, *operands))
        *given, rest = operands
        return LayerNormalizeGrad().formula(node, *given, total, dot, rest)

    def joint(
        self, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]
    ) -> tuple[Node, Sequence[Node]] | None:
        """Both, where the sums are of the same operands and belong to whole rows."""
        rest = LayerNormalizeGrad.centre.rest
        sums = node.inputs[rest - 2 : rest]
        operands = (*node.inputs[: rest - 2], *node.inputs[rest:])
        for other in near:
            if other.op == LayerSums.name and other.inputs == operands and other.outputs[:2] == sums:
                whole = may_be_whole(node, types[node.inputs[0]].shape)
                return (Node(node.name, self.name, operands, node.outputs, node.attrs), [other]) if whole else None
        return None
