"""BiasFastGeluGrad_dX: the gradient of X + bias under FastGelu."""

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import register
from deployer.operators.activation.biased import Joined, joined_form


@register
class BiasFastGeluGradDX(Joined):
    """dY, X and the bias."""

    name = "BiasFastGeluGrad_dX"
    custom = joined_form(2)
    wide = 2

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanhGrad."""
        return "GeluTanhGrad", {}
