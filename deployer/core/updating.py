"""The declaration by which an operator is an optimizer's update and what makes its gradient, in one kernel."""

from collections.abc import Mapping
from typing import ClassVar

from deployer.core.ir import Node, TensorType


class Updating:
    """The part of an operator that says of which update it is a joint form; by default of none.

    `applies` is the name of the optimizer's operator whose formula its kernel applies to each element of a gradient as
    soon as that is complete, in place of the weight: the gradient is rounded to float32 before, and has no memory. The
    scalars of its kernel that depend on the learning rate have the names that they have in the optimizer's.
    """

    applies: ClassVar[str] = ""

    def joint(self, producer: Node, update: Node, types: Mapping[str, TensorType]) -> Node | None:
        """The node that does both, in place of the weight, but for its name and outputs; None where it is none.

        `update` is a node of the optimizer that `applies` names, and reads a gradient that `producer` makes.
        """
        return None
