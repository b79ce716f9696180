"""MirroredStep: the number of the step that is as far from a sequence's end as a step is from its start."""

from collections.abc import Iterator, Mapping

import numpy as np

from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Sample
from deployer.formulas.tree import call
from deployer.operators.declared import Spread, declare
from deployer.operators.sequence.lengths import LENGTHS, length_indices
from deployer.operators.sequence.sequence_mask import LENGTH, STEP


@declare
class MirroredStep(Spread):
    """Elementwise: length - 1 - step within a sequence, and the step itself behind its end."""

    name = "MirroredStep"
    custom = LENGTHS
    operands = (STEP, LENGTH)
    formula = call("whole_choose", call("whole_less", STEP, LENGTH), call("sum", LENGTH, call("bits_not", STEP)), STEP)
    no_gradient = "a number has none"

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices | None:
        """The lengths."""
        return length_indices(node, types)

    def samples(self) -> Iterator[Sample]:
        """Steps of several sequences, one of which is empty and one whole."""
        steps = np.arange(5, dtype=np.int32).reshape(5, 1)
        yield Sample("lengths", (steps, np.array([0, 2, 5], np.int32)), onnx=False)
