"""FastGelu: Gelu by its approximation with tanh, of X or of X + bias."""

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import register
from deployer.operators.activation.biased import Joined, joined_form


@register
class FastGelu(Joined):
    """ONNX Runtime's."""

    name = "FastGelu"
    custom = joined_form(1, optional=True)
    optional = True

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """GeluTanh."""
        return "GeluTanh", {}
