"""Max: the largest of any number of operands; NaN where one is."""

from typing import ClassVar

from deployer.core.forms import Rule
from deployer.formulas.tree import most
from deployer.operators.chained import Chained
from deployer.operators.declared import A, B, declare
from deployer.operators.elementwise import equal_shapes


@declare
class Max(Chained):
    """Elementwise, from left to right; of two that are equal each gets half of the gradient, as PyTorch's maximum."""

    name = "Max"
    versions = (8, 12, 13)
    older: ClassVar[dict[int, Rule]] = {1: equal_shapes, 6: equal_shapes}
    operands = (A, B)
    formula = most(A, B)
    kinks: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerMax"
