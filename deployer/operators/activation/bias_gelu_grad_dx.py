"""BiasGeluGrad_dX: the gradient of X + bias under Gelu."""

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import register
from deployer.operators.activation.biased import Joined, joined_form


@register
class BiasGeluGradDX(Joined):
    """dY, X and the bias."""

    name = "BiasGeluGrad_dX"
    custom = joined_form(2)
    wide = 2

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluGrad."""
        return "GeluGrad", {}
