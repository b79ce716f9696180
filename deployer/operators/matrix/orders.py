"""Axes of a product's operands in another order in memory: attributes that only fusion sets, shapes, and views.

An order says which axis each axis of what follows is of what comes before: for A and B of what is stored, for Y of what
is computed. Kernels take a step for each axis but Y's last, so any order will do in which batch axes stay neighbours.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import At, Axis, Broadcast, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.operator import mismatch, unsupported

ORDERS = {0: "order_a", 1: "order_b"}
"""Attributes of inputs, by position."""
RESULT_ORDER = "order_y"

Shape = tuple[int, ...]


def is_ordered(node: Node) -> bool:
    """Whether an operand lies in memory in another order of axes."""
    return any(name in node.attrs for name in (*ORDERS.values(), RESULT_ORDER))


def order_of(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """The order that an attribute says, by default that of the axes; ShapeMismatch where it is none."""
    order = node.attr_ints(name, tuple(range(rank)))
    if sorted(order) != list(range(rank)):
        raise mismatch(node, f"{name} {order} is no order of {rank} axes", ())
    return order


def used_type(node: Node, position: int, kind: TensorType) -> TensorType:
    """The type of an input with its axes in the order in which they are multiplied."""
    order = order_of(node, ORDERS[position], len(kind.shape))
    return TensorType(kind.dtype, tuple(kind.shape[axis] for axis in order))


def used_shape(node: Node, position: int, types: Mapping[str, TensorType]) -> Shape:
    """The shape of an input with its axes in that order."""
    return used_type(node, position, types[node.inputs[position]]).shape


def stored_order(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """The axes of A, B or the product, as they are multiplied or computed, in the order in which they are stored."""
    order = order_of(node, name, rank)
    return order if name == RESULT_ORDER else tuple(int(axis) for axis in np.argsort(order))


def ordered_operand(node: Node, plain: Operand, shape: Shape, order: Sequence[int], roles: tuple[str, str]) -> Operand:
    """The operand `plain` of a matrix of that shape whose axes are stored in that order; `roles` name its dims.

    UnsupportedOperator where batch axes, which are one dim, are not neighbours there.
    """
    names = ["batch"] * (len(shape) - 2) + list(roles)
    groups: list[tuple[str, int]] = []
    last = -1
    for axis in (axis for axis in order if shape[axis] != 1):
        follows = all(shape[between] == 1 for between in range(last + 1, axis)) and last < axis
        if groups and groups[-1][0] == names[axis] == "batch" and follows:
            groups[-1] = ("batch", groups[-1][1] * shape[axis])
        elif names[axis] in dict(groups):
            raise unsupported(
                node, f"axes of {plain.arg} are stored as {tuple(order)}", "batch axes that are neighbours"
            )
        else:
            groups.append((names[axis], shape[axis]))
        last = axis
    absent = [name for name in ("batch", *roles) if name not in dict(groups)]
    axes: list[Axis] = [Broadcast() if name == "batch" else At(name) for name in absent]
    axes += [At(name) for name, _ in groups]
    return Operand(plain.arg, plain.tensor, plain.mode, (*[1] * len(absent), *(n for _, n in groups)), tuple(axes))


def axis_of(operand: Operand, dim: str) -> int:
    """The axis of the operand that is a dim, or the one that is broadcast along it."""
    axes = list(operand.axes)
    return axes.index(At(dim) if At(dim) in axes else Broadcast())
