"""LessOrEqual: whether A is not above B, nor NaN."""

from typing import ClassVar

from deployer.operators.declared import A, B, Spread, declare


@declare
class LessOrEqual(Spread):
    """Elementwise; a truth."""

    name = "LessOrEqual"
    versions = (12, 16)
    operands = (A, B)
    formula = A <= B
    kinks: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerLessOrEqual"
    no_gradient = "a truth has none"
