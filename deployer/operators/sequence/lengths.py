"""The bounds of lengths of sequences, which data are checked for."""

from collections.abc import Mapping

from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType


def length_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of lengths up to the number of steps, which are the elements of the first."""
    steps = types[node.inputs[0]].size
    hint = "cut sequences, or an X with more steps"
    return Indices(node.inputs[1], steps + 1, word="length", among="lengths", hint=hint)
