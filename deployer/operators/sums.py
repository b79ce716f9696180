"""Sums that gradients need whatever the operator: over axes along which a value was broadcast, and of several parts."""

from collections.abc import Sequence

import numpy as np

from deployer.core.operator import GradientBuilder
from deployer.operators.arithmetic.add import Add
from deployer.operators.reduction.reduce_sum import ReduceSum
from deployer.operators.view import reshape_to
from deployer.operators.views.identity import Identity

SUM = Add.name
"""The operator of two parts of a gradient and their sum."""


def sum_to(b: GradientBuilder, name: str, shape: Sequence[int], out: str) -> None:
    """Emit `out` as the sum of `name` over the axes along which `shape` was broadcast."""
    full = b.type(name).shape
    lead = len(full) - len(shape)
    axes = [i for i, size in enumerate(full) if i < lead or (size != 1 and shape[i - lead] == 1)]
    if not axes:
        b.emit(Identity.name, (name,), (out,))
        return
    inner = axes[-1] >= lead
    reshaped = lead > 0 and inner
    total = b.temp("reduced") if reshaped else out
    source = b.constant("axes", np.array(axes, np.int64))
    b.emit(ReduceSum.name, (name, source), (total,), keepdims=int(inner))
    if reshaped:
        reshape_to(b, total, tuple(shape), out)
