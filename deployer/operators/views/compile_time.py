"""The base of operators that exist at compile time only."""

from collections.abc import Sequence

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Operator, unsupported


class Folded(Operator):
    """An operator of compile-time values; the check stage replaces its nodes by the constants their reference gives."""

    no_gradient = "its value does not depend on the values of its inputs"

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """UnsupportedOperator: such a node never reaches the target."""
        raise unsupported(node, "could not be folded to a constant", "constant inputs")
