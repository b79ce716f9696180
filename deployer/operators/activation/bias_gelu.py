"""BiasGelu: Gelu of X + bias."""

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import register
from deployer.operators.activation.biased import Joined, joined_form


@register
class BiasGelu(Joined):
    """ONNX Runtime's, of a dense layer's sums and their bias."""

    name = "BiasGelu"
    custom = joined_form(1)

    def function(self, node: Node) -> tuple[str, dict[str, AttrValue]]:
        """Gelu."""
        return "Gelu", {}
