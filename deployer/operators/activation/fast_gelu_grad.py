"""FastGeluGrad: the gradient of X under FastGelu."""

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import register
from deployer.operators.activation.biased import Joined, joined_form


@register
class FastGeluGrad(Joined):
    """dY, X and, where there is one, the bias."""

    name = "FastGeluGrad"
    custom = joined_form(2, optional=True)
    wide = 2
    optional = True

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanhGrad."""
        return "GeluTanhGrad", {}
