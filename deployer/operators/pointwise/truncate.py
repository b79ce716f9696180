"""Truncate: floats as integers, towards zero: what Cast to int32 is at run time."""

from typing import ClassVar

from deployer.formulas.tree import call
from deployer.operators.declared import Pointwise, X, declare


@declare
class Truncate(Pointwise):
    """Elementwise; what is beyond int32 becomes its nearest, and NaN 0. ONNX leaves both open."""

    name = "Truncate"
    formula = call("integer", X)
    kinks: ClassVar = {"x": (call("round", X),)}
    no_gradient = "it is constant wherever it has a derivative"
