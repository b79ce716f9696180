"""Operators that draw random numbers, each by a stream of its own."""

from collections.abc import Sequence

import numpy as np

from deployer.operators.elementwise.random import KeyedDropout
from deployer.torch.graph import GraphBuilder, Operand, Value, lowers


@lowers("deployer::dropout")
def dropout(g: GraphBuilder, x: Operand, share: float, stream: int) -> Value:
    """x without a share of its elements, the others scaled; its gradient is the same of what arrives."""
    value = g.value(x)
    return g.emit(KeyedDropout.name, [value], value.shape, ratio=share, seed=g.seed, stream=stream)


@lowers("deployer::keep")
def keep(g: GraphBuilder, size: Sequence[int], share: float, stream: int) -> Value:
    """1 with a probability of `share`, else 0."""
    return g.unary("Sign", dropout(g, np.ones(tuple(size)), 1 - share, stream))


@lowers("deployer::uniform")
def uniform(g: GraphBuilder, size: Sequence[int], stream: int) -> Value:
    """Numbers from 0 to below 1."""
    return g.emit("KeyedUniform", [g.ints(size)], tuple(size), seed=g.seed, stream=stream)
