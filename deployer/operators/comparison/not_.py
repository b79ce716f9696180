"""Not: whether X is false."""

from deployer.formulas.tree import Input, call
from deployer.operators.declared import Pointwise, declare

X = Input("x", "int32")


@declare
class Not(Pointwise):
    """Elementwise; a truth."""

    name = "Not"
    versions = (1,)
    operands = (X,)
    formula = call("negation", X)
    no_gradient = "a truth has none"
