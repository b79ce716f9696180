"""Tensors as [outer, along, inner]: an axis, the axes before it and the axes behind it."""

import math
from collections.abc import Sequence

from deployer.core.access import Access, At
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Stride
from deployer.operators.base.views import normalized_axes


def axis_of(node: Node, shape: Sequence[int], default: int, inputs: Sequence[TensorType | None] = ()) -> int:
    """The attribute `axis`, counted from the front; ShapeMismatch where it is outside the rank."""
    return normalized_axes(node, (node.attr_int("axis", default),), len(shape), inputs)[0]


def lines(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """The product of the lengths before an axis, its length, and the product of those behind it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def line_strides(access: Access, names: Sequence[str]) -> dict[str, ArgValue]:
    """For each of these operands the stride along each axis but the last, as `<arg>_<dim>`; `n` where no dim is."""
    values: dict[str, ArgValue] = {}
    for operand in access.operands:
        if operand.arg in names:
            for at, axis in enumerate(operand.axes[:-1]):
                values[f"{operand.arg}_{axis.dim if isinstance(axis, At) else 'n'}"] = Stride(operand.arg, at)
    return values
