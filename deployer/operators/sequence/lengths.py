"""The bounds of lengths of sequences, which data are checked for."""

from collections.abc import Mapping

from deployer.core.declarations import Indices
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType

STEPS = "steps"
LENGTHS = Form((2, 2), (1, 1), {STEPS: "INT"})


def length_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The second input, of lengths up to the number of steps: the attribute STEPS, or the elements of the first."""
    steps = node.attr_int(STEPS, types[node.inputs[0]].size)
    hint = "cut sequences, or an X with more steps"
    return Indices(node.inputs[1], steps + 1, word="length", among="lengths", hint=hint)
