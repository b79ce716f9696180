"""Trigonometric and hyperbolic functions and their inverses."""

import numpy as np

from deployer.core.operator import Array
from deployer.core.traits.file import FileSpec
from deployer.expressions.formula import Input
from deployer.expressions.tree import call
from deployer.operators.base.elementwise_dsl import Pointwise, X, elementwise


@elementwise
class Acos(Pointwise):
    """The angle whose cosine is X. Elementwise."""

    name = "Acos"
    file = FileSpec(versions=(7, 22))
    formula = call("acos", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers between -1 and 1."""
        return np.tanh(super().drawn(generator, operand, shape))


@elementwise
class Acosh(Pointwise):
    """The inverse of the hyperbolic cosine. Elementwise."""

    name = "Acosh"
    file = FileSpec(versions=(9, 22))
    formula = call("acosh", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers above 1."""
        return np.float32(1) + np.exp(super().drawn(generator, operand, shape))


@elementwise
class Asin(Pointwise):
    """The angle whose sine is X. Elementwise."""

    name = "Asin"
    file = FileSpec(versions=(7, 22))
    formula = call("asin", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers between -1 and 1."""
        return np.tanh(super().drawn(generator, operand, shape))


@elementwise
class Asinh(Pointwise):
    """The inverse of the hyperbolic sine. Elementwise."""

    name = "Asinh"
    file = FileSpec(versions=(9, 22))
    formula = call("asinh", X)
    spread = 3.0


@elementwise
class Atan(Pointwise):
    """The angle whose tangent is X. Elementwise."""

    name = "Atan"
    file = FileSpec(versions=(7, 22))
    formula = call("atan", X)
    spread = 3.0


@elementwise
class Atanh(Pointwise):
    """The inverse of the hyperbolic tangent. Elementwise."""

    name = "Atanh"
    file = FileSpec(versions=(9, 22))
    formula = call("atanh", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Numbers between -1 and 1."""
        return np.tanh(super().drawn(generator, operand, shape))


@elementwise
class Cos(Pointwise):
    """The cosine. Elementwise."""

    name = "Cos"
    file = FileSpec(versions=(7, 22))
    formula = call("cos", X)
    spread = 3.0


@elementwise
class Cosh(Pointwise):
    """The hyperbolic cosine. Elementwise."""

    name = "Cosh"
    file = FileSpec(versions=(9, 22))
    formula = call("cosh", X)


@elementwise
class Sin(Pointwise):
    """The sine. Elementwise."""

    name = "Sin"
    file = FileSpec(versions=(7, 22))
    formula = call("sin", X)
    spread = 3.0


@elementwise
class Sinh(Pointwise):
    """The hyperbolic sine. Elementwise."""

    name = "Sinh"
    file = FileSpec(versions=(9, 22))
    formula = call("sinh", X)


@elementwise
class Tan(Pointwise):
    """The tangent. Elementwise; at its poles there is no border: a float is never there."""

    name = "Tan"
    file = FileSpec(versions=(7, 22))
    formula = call("tan", X)
