"""Sums that gradients need whatever the operator: over axes along which a value was broadcast, and of several parts."""

from collections.abc import Sequence

import numpy as np

from deployer.core.operator import Array, GradientBuilder
from deployer.operators.arithmetic.add import Add
from deployer.operators.broadcast import Shape, aligned
from deployer.operators.construction import Construction
from deployer.operators.reduction.reduce_sum import ReduceSum
from deployer.operators.view import reshape_to
from deployer.operators.views.identity import Identity

SUM = Add.name
"""The operator of two parts of a gradient and their sum."""
SUMS, FACTORS, QUOTIENTS = ("Add", "Sum", "Sub"), ("Mul",), ("Div",)
"""Operators by which a layer's bias and gain stand apart from it, and by which a norm written out divides."""
ROOT, POWER, INVERSES, MEANS = "Sqrt", "Pow", ("Reciprocal", "Div"), "Reduce"
"""Operators of the divisor of a norm that is written out; those of means begin so."""
PASSING = ("Cast", "Dropout")
"""Operators that leave values as they are, or drop some."""
PRODUCT, UNIT_NORM = "MatMul", "InstanceNormalization"
"""The operator of two matrices, and that of a norm which exporters also write inside of others."""


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


def summed_axes(wide: Shape, shape: Shape) -> tuple[int, ...]:
    """The axes of the wide shape along which the other was broadcast."""
    own = aligned(shape, len(wide))
    added = len(wide) - len(shape)
    return tuple(axis for axis, (n, m) in enumerate(zip(wide, own, strict=True)) if axis < added or n != m)


def sum_nodes(parts: Construction, name: str, wide: Shape, shape: Shape, output: str) -> None:
    """Append nodes for `output`, of that shape, from a value of the wide one."""
    axes = summed_axes(wide, shape)
    total = parts.emit("ReduceSum", (name,), axes=axes, keepdims=0) if axes else name
    parts.emit("Reshape", (total,), output, shape=shape)


def sum_array(x: Array, shape: Shape) -> Array:
    """An array of that shape from one of a wide shape."""
    return np.asarray(x.sum(summed_axes(x.shape, shape), dtype=x.dtype)).reshape(shape)
