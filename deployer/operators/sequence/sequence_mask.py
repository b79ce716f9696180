"""SequenceMask: which steps are within a sequence, from the numbers of steps and the lengths of sequences."""

from collections.abc import Iterator, Mapping

import numpy as np

from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample
from deployer.formulas.tree import Input, call
from deployer.operators.declared import Spread, declare
from deployer.operators.sequence.lengths import LENGTHS, length_indices

STEP, LENGTH = Input("step", "int32", whole=True), Input("length", "int32", whole=True)


@declare
class SequenceMask(Spread):
    """Elementwise: a step is within where its number is below the length."""

    name = "SequenceMask"
    custom = LENGTHS
    operands = (STEP, LENGTH)
    formula = call("whole_less", STEP, LENGTH)
    no_gradient = "a truth has none"

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices | None:
        """The lengths."""
        return length_indices(node, types)

    def samples(self) -> Iterator[Sample]:
        """Steps of several sequences, one of which is empty and one whole."""
        steps = np.arange(5, dtype=np.int32).reshape(5, 1, 1)
        yield Sample("lengths", (steps, np.array([[0], [2], [5]], np.int32)), onnx=False)
