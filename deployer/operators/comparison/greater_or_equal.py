"""GreaterOrEqual: whether A is not below B, nor NaN."""

from typing import ClassVar

from deployer.operators.declared import A, B, Spread, declare


@declare
class GreaterOrEqual(Spread):
    """Elementwise; a truth."""

    name = "GreaterOrEqual"
    versions = (12, 16)
    operands = (A, B)
    formula = A >= B
    kinks: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerGreaterOrEqual"
    no_gradient = "a truth has none"
