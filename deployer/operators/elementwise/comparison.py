"""Comparisons, logic and selection by a condition."""

import math
from typing import ClassVar

import numpy as np

from deployer.core.operator import Array
from deployer.core.traits.file import FileSpec
from deployer.expressions.formula import Attr, Formula, Input, choose
from deployer.expressions.tree import call
from deployer.operators.base.elementwise import limited
from deployer.operators.base.elementwise_dsl import BOOLS, A, B, BroadcastElementwise, Pointwise, X, elementwise


@elementwise
class And(BroadcastElementwise):
    """Whether both are true. Elementwise; a truth."""

    name = "And"
    file = FileSpec(versions=(7,), older={1: limited})
    operands = BOOLS
    formula = call("and", *BOOLS)
    no_gradient = "a bool has none"


@elementwise
class Equal(BroadcastElementwise):
    """Whether A is B. Elementwise; a truth."""

    name = "Equal"
    file = FileSpec(versions=(7, 11, 13, 19), older={1: limited})
    operands = (A, B)
    formula = call("equal", A, B)
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerEqual"
    no_gradient = "a bool has none"


@elementwise
class Greater(BroadcastElementwise):
    """Whether A is above B. Elementwise; a truth."""

    name = "Greater"
    file = FileSpec(versions=(7, 9, 13), older={1: limited})
    operands = (A, B)
    formula = A > B
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerGreater"
    no_gradient = "a bool has none"


@elementwise
class GreaterOrEqual(BroadcastElementwise):
    """Whether A is not below B, nor NaN. Elementwise; a truth."""

    name = "GreaterOrEqual"
    file = FileSpec(versions=(12, 16))
    operands = (A, B)
    formula = A >= B
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerGreaterOrEqual"
    no_gradient = "a bool has none"


def _found(flag: str, infinity: float) -> Formula:
    return call("and", call("equal", X, infinity), call("less", 0.0, Attr(flag)))


@elementwise
class IsInf(Pointwise):
    """Whether X is an infinity, of either sign or of one. Elementwise; a truth."""

    name = "IsInf"
    formula = call("or", _found("detect_negative", -math.inf), _found("detect_positive", math.inf))
    defaults: ClassVar = {"detect_negative": 1.0, "detect_positive": 1.0}
    file = FileSpec(versions=(10, 20), flags=("detect_negative", "detect_positive"))
    trials = ({"detect_negative": 0}, {"detect_positive": 0})
    no_gradient = "a bool has none"

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers, and infinities of both signs."""
        x = super().drawn(generator, operand, shape)
        return np.where(np.abs(x) > np.float32(1), np.copysign(np.float32(np.inf), x), x)


@elementwise
class IsNaN(Pointwise):
    """Whether X is no number. Elementwise; a truth."""

    name = "IsNaN"
    file = FileSpec(versions=(9, 13, 20))
    formula = call("not", call("equal", X, X))
    no_gradient = "a bool has none"


@elementwise
class Less(BroadcastElementwise):
    """Whether A is below B. Elementwise; a truth."""

    name = "Less"
    file = FileSpec(versions=(7, 9, 13), older={1: limited})
    operands = (A, B)
    formula = A < B
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerLess"
    no_gradient = "a bool has none"


@elementwise
class LessOrEqual(BroadcastElementwise):
    """Whether A is not above B, nor NaN. Elementwise; a truth."""

    name = "LessOrEqual"
    file = FileSpec(versions=(12, 16))
    operands = (A, B)
    formula = A <= B
    non_differentiable: ClassVar = {"a": (B,), "b": (A,)}
    integers = True
    at_run_time = "IntegerLessOrEqual"
    no_gradient = "a bool has none"


BOOL = Input("x", "int32")


@elementwise
class Not(Pointwise):
    """Whether X is false. Elementwise; a truth."""

    name = "Not"
    file = FileSpec(versions=(1,))
    operands = (BOOL,)
    formula = call("not", BOOL)
    no_gradient = "a bool has none"


@elementwise
class Or(BroadcastElementwise):
    """Whether one is true, or both. Elementwise; a truth."""

    name = "Or"
    file = FileSpec(versions=(7,), older={1: limited})
    operands = BOOLS
    formula = call("or", *BOOLS)
    no_gradient = "a bool has none"


CONDITION, OTHER = Input("condition", "int32"), Input("other")


@elementwise
class Where(BroadcastElementwise):
    """X where a condition is true, else Y. Elementwise; the gradient goes to what is chosen."""

    name = "Where"
    file = FileSpec(versions=(9, 16))
    operands = (CONDITION, X, OTHER)
    formula = choose(CONDITION, X, OTHER)
    integers = True
    at_run_time = "IntegerWhere"


@elementwise
class Xor(BroadcastElementwise):
    """Whether one alone is true. Elementwise; a truth."""

    name = "Xor"
    file = FileSpec(versions=(7,), older={1: limited})
    operands = BOOLS
    formula = call("xor", *BOOLS)
    no_gradient = "a bool has none"
